"""`volumes:` of a job as what its pods mount."""

import pytest

from dromon.engines.kubernetes.data import Data, volume
from dromon.engines.kubernetes.target import Target
from dromon.errors import Refused

OPEN = Target(host_path_allowed=True)


def mounted(source, **more):
    return Data(
        "/dromon/volumes/ct",
        {"name": "volume-ct", **source},
        {"mountPath": "/dromon/volumes/ct", "name": "volume-ct", **more},
    )


CLAIM = {"persistentVolumeClaim": {"claimName": "data"}}
HOST = {"hostPath": {"path": "/data", "type": "Directory"}}
NFS = {"nfs": {"path": "/export/ct", "server": "filer"}}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"source": "node"}, mounted({"emptyDir": {}})),
        ({"source": "pvc:data"}, mounted(CLAIM, readOnly=True)),
        ({"source": "pvc:data", "access": "mount"}, mounted(CLAIM)),
        ({"source": "pvc:data/a/b/", "access": "mount"}, mounted(CLAIM, subPath="a/b")),
        ({"source": "pvc://data/a"}, mounted(CLAIM, subPath="a", readOnly=True)),
        ({"source": "nfs://filer/export/ct"}, mounted(NFS, readOnly=True)),
        ({"source": "nfs://filer:2049/export/ct", "access": "mount"}, mounted(NFS)),
        ({"source": "nfs://filer"},
         mounted({"nfs": {"path": "/", "server": "filer"}}, readOnly=True)),
        ({"source": "/data", "access": "mount"}, mounted(HOST)),
        ({"source": "file:///data"}, mounted(HOST, readOnly=True)),
        ({"source": "s3://b/x", "access": "url"}, Data("s3://b/x")),
        ({"source": "hdfs:///x", "access": "url"}, Data("hdfs:///x")),
    ],
)  # fmt: skip
def test_a_source_is_mounted_where_members_look_for_it(asked, found):
    assert volume("ct", asked, OPEN) == found


def test_objects_are_fetched_into_a_place_of_the_pods_own():
    found = volume("ct", {"source": "s3://bucket/ct/2026"}, Target())
    assert found == mounted({"emptyDir": {}})._replace(fetch="s3://bucket/ct/2026")


@pytest.mark.parametrize(
    ("asked", "words", "hint"),
    [
        ({"source": "/data"}, "a path of this machine", "pvc:NAME"),
        ({"source": "file:///data", "access": "mount"}, "a path of this machine", "nfs://"),
        ({"source": "gs://b/x"}, "pods cannot fetch gs://b/x", "access: url"),
        ({"source": "s3://b1/x", "access": "mount"}, "pods cannot mount s3://b1/x", "CSI"),
        ({"source": "s3:///x"}, "names no bucket", "s3://bucket/prefix"),
        ({"source": "hdfs:///x", "access": "mount"}, "pods cannot mount hdfs:///x", "CSI"),
        ({"source": "pvc:"}, "names no claim", "pvc:NAME"),
        ({"source": "pvc:Data"}, "names no claim", "pvc:NAME"),
        ({"source": "pvc:data/../x"}, "names no claim", "pvc:NAME"),
        ({"source": "nfs:///x"}, "names no server", "nfs://server/path"),
        ({"source": "nfs://s:99/x"}, "names a port", "nfs://server/path"),
        ({"source": "nfs://[::1/x"}, "names no server", "nfs://server/path"),
    ],
)
def test_what_pods_cannot_reach_is_refused_with_a_way_out(asked, words, hint):
    with pytest.raises(Refused) as refused:
        volume("ct", asked, Target())
    assert words in refused.value.message
    assert "volume ct" in refused.value.message
    assert hint in refused.value.hint
