"""`volumes:` of a job: where a member sees each, and what its pod mounts for it. Pure.

    node                          scratch space, as long as the pod lives
    pvc:NAME, pvc:NAME/sub/path   a claim of the namespace
    nfs://server/path             a directory of an NFS server
    /path, file:///path           a directory of the node, where the site allows it
    s3://bucket/prefix            its objects, fetched into the pod before the member starts
    s3://…, hdfs://…, …           the address as it is, with `access: url`

`access: copy` of a directory that every node reaches is that directory, read-only: it need not be
copied to be the same on all of them.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from dromon.engines.kubernetes.hatches import is_object_name
from dromon.engines.kubernetes.target import Target
from dromon.errors import Refused

ROOT = "/dromon/volumes"
NFS_PORT = "2049"
_NFS = re.compile(
    r"nfs://(?P<server>\[[0-9A-Fa-f:.]+\]|[^/:\[\]\s]+)(?::(?P<port>[0-9]+))?(?P<path>/.*)?"
)

_S3 = re.compile(r"s3://[a-z0-9][a-z0-9.-]+(?:/.*)?")


class Data(NamedTuple):
    """One volume: its path for members, and its place in the pod (None: nothing is mounted)."""

    path: str
    volume: Mapping[str, Any] | None = None
    mount: Mapping[str, Any] | None = None
    fetch: str = ""  # from where the pod fills it


def volume(name: str, asked: Mapping[str, Any], target: Target) -> Data:
    source, access = str(asked["source"]), str(asked.get("access", "copy"))
    if access == "url":
        return Data(source)
    if source == "node":
        return _mounted(name, {"emptyDir": {}}, "mount")
    if source.startswith("pvc:"):
        claim, sub_path = _claim(name, source)
        return _mounted(name, {"persistentVolumeClaim": {"claimName": claim}}, access, sub_path)
    if source.startswith("nfs://"):
        return _mounted(name, {"nfs": _nfs(name, source)}, access)
    if source.startswith("s3://") and access == "copy":
        return _mounted(name, {"emptyDir": {}}, "mount")._replace(fetch=_objects(name, source))
    if "://" in source and not source.startswith("file://"):
        raise Refused(
            f"volume {name}: pods cannot {'mount' if access == 'mount' else 'fetch'} {source}",
            hint="Use `access: url` to hand the address to the task, or a claim whose CSI driver "
            "mounts it: `source: pvc:NAME`.",
        )
    if not target.host_path_allowed:
        raise Refused(
            f"volume {name}: {source} is a path of this machine, which pods do not see",
            hint="Use `pvc:NAME` or `nfs://server/path`. Where all nodes have that path, the "
            "context says so by --set host.paths=yes.",
        )
    path = source.removeprefix("file://")
    if not path.startswith("/"):
        raise Refused(f"volume {name}: {source} is not absolute", hint="Write /path/on/the/node.")
    # Without a type, a path that is not there would be made, and be empty.
    return _mounted(name, {"hostPath": {"path": path, "type": "Directory"}}, access)


def _mounted(name: str, source: Mapping[str, Any], access: str, sub_path: str = "") -> Data:
    path = f"{ROOT}/{name}"
    mount: dict[str, Any] = {"mountPath": path, "name": f"volume-{name}"}
    if sub_path:
        mount["subPath"] = sub_path
    if access == "copy":
        mount["readOnly"] = True
    return Data(path, {"name": f"volume-{name}", **source}, mount)


def _objects(name: str, source: str) -> str:
    if _S3.fullmatch(source) is None:
        raise Refused(f"volume {name}: {source} names no bucket",
                      hint="Write s3://bucket/prefix.")  # fmt: skip
    return source


def _claim(name: str, source: str) -> tuple[str, str]:
    claim, _, sub_path = source.removeprefix("pvc:").lstrip("/").partition("/")
    sub_path = sub_path.strip("/")
    if not is_object_name(claim) or ".." in sub_path.split("/"):
        raise Refused(f"volume {name}: {source} names no claim",
                      hint="Write pvc:NAME, or pvc:NAME/path/in/it.")  # fmt: skip
    return claim, sub_path


def _nfs(name: str, source: str) -> dict[str, Any]:
    parts = _NFS.fullmatch(source)
    if parts is None or parts["port"] not in (None, NFS_PORT):
        what = "names no server" if parts is None else "names a port, which pods cannot mount from"
        raise Refused(f"volume {name}: {source} {what}", hint="Write nfs://server/path.")
    return {"path": parts["path"] or "/", "server": parts["server"].strip("[]")}
