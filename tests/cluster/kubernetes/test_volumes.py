"""Directories that pods mount: a claim of the namespace, a path of the nodes, scratch, /dev/shm."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jobs
import pytest
from testbeds.kubernetes.bed import Bed

from dromon.engines.base import token
from dromon.engines.kubernetes.engine import KubernetesEngine
from dromon.engines.kubernetes.volcano import CLAIM, Kind
from dromon.errors import Refused

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes")
# One writes where all read; who may not write says so.
SHARE = """
def place(name):
    return os.environ["DROMON_VOLUME_" + name.upper()]
if rank == 0:
    open(place("claimed") + "/step.new", "w").write("7")
    os.rename(place("claimed") + "/step.new", place("claimed") + "/step")
while not os.path.exists(place("claimed") + "/step"):
    time.sleep(0.1)
try:
    open(place("corpus") + "/mine", "w")
    may = "may"
except OSError as error:
    may = "may not: " + error.strerror
shm = os.statvfs("/dev/shm")
say(open(place("claimed") + "/step").read(), open(place("corpus") + "/text").read(), may,
    shm.f_blocks * shm.f_frsize >> 20)
"""


@pytest.fixture
def claim(bed: Bed, engine: KubernetesEngine) -> Iterator[str]:
    """A claim and its volume: a directory that all nodes of the bed have."""
    name, folder = f"data-{token()}", Path(bed.shared, f"claimed-{token()}")
    (folder / "runs").mkdir(parents=True)
    os.chmod(folder / "runs", 0o777)
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    size = {"storage": "1Gi"}
    spec = {**common, "capacity": size, "hostPath": {"path": str(folder)}}
    engine.api.create(VOLUME, "", {"metadata": {"name": name}, "spec": spec})
    wanted = {**common, "volumeName": name, "resources": {"requests": size}}
    engine.api.create(CLAIM, engine.namespace, {"metadata": {"name": name}, "spec": wanted})
    yield name
    jobs.stop_all(engine)
    engine.api.delete(CLAIM, engine.namespace, name)
    engine.api.delete(VOLUME, "", name)


@pytest.fixture
def engine(bed: Bed, tmp_path: Path) -> Iterator[KubernetesEngine]:
    made = jobs.engine(bed, tmp_path, properties={"host.paths": "yes"})
    yield made
    jobs.stop_all(made)
    made.close()


@pytest.fixture
def corpus(bed: Bed) -> str:
    folder = Path(bed.shared, f"corpus-{token()}")
    folder.mkdir()
    (folder / "text").write_text("here")
    return str(folder)


def job(claim: str, corpus: str) -> dict[str, Any]:
    volumes = {
        "claimed": {"source": f"pvc:{claim}/runs", "access": "mount"},
        "corpus": {"source": corpus, "access": "copy"},
    }
    role = {"replicas": 2, "spread": "node", "resources": {**jobs.SMALL, "memory": "256MiB"}}
    return {"roles": {"worker": role}, "volumes": volumes}


def test_a_gang_shares_a_claim_reads_a_path_of_its_nodes_and_has_room_in_shm(
    bed: Bed, engine: KubernetesEngine, claim: str, corpus: str
) -> None:
    ref = jobs.run(engine, SHARE, **job(claim, corpus))
    assert jobs.ended(engine, ref).state == "succeeded", jobs.told(engine, ref)
    # Half of the memory that the job file says, where it says nothing of shm.
    line = "7 here may not: Read-only file system 128"
    assert jobs.texts(engine, ref) == [line, line], jobs.told(engine, ref)
    volume = engine.api.read(VOLUME, "", claim)
    assert volume is not None
    assert Path(volume["spec"]["hostPath"]["path"], "runs", "step").read_text() == "7"
    engine.remove([ref])
    assert engine.api.read(CLAIM, engine.namespace, claim) is not None  # it is not the job's


def test_a_path_is_this_machines_unless_the_context_says_that_nodes_have_it(
    bed: Bed, corpus: str, tmp_path: Path
) -> None:
    plain = jobs.engine(bed, tmp_path)
    with pytest.raises(Refused, match="a path of this machine, which pods do not see") as caught:
        jobs.run(plain, "pass", volumes={"corpus": {"source": corpus}})
    assert "host.paths=yes" in str(caught.value.hint)
    plain.close()


def test_an_nfs_server_that_is_away_is_named(engine: KubernetesEngine) -> None:
    """The bed has none: what its kubelets try to mount is what the job file says."""
    source = "nfs://127.0.0.1/exports/nothing"
    ref = jobs.run(engine, "pass", volumes={"far": {"source": source}})
    said = jobs.reason(engine, ref, "volume-far")
    assert "cannot be mounted" in said
    pod = engine.jobs.pods(ref)[0]
    mounted = {"path": "/exports/nothing", "server": "127.0.0.1"}
    assert mounted in [volume.get("nfs") for volume in pod["spec"]["volumes"]], json.dumps(pod)
