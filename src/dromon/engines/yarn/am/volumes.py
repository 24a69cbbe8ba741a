"""`volumes:` in a container: scratch space, and copies of HDFS directories, once per node and job.

A compiled volume is {"path": …, "source": "hdfs:///…" | ""}. Relative paths are the container's.
YARN gives every container of an application on a node the same directory, and clears it away when
the application ends: copies lie there, made by whoever comes first.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from dromon.hadoop.webhdfs import WebHdfs


def path_of(name: str, volume: Mapping[str, Any], root: str) -> str:
    """Where a member finds it; `root` is the container's own directory."""
    if volume["kind"] == "copy":
        shared = os.environ.get("LOCAL_DIRS", root).split(",")[0]
        return os.path.join(shared, "dromon-volumes", name)
    if volume["kind"] == "scratch":
        return os.path.join(root, "volumes", name)
    return str(volume["path"])


def lay_out(volumes: Mapping[str, Mapping[str, Any]], root: str, hdfs: WebHdfs) -> None:
    """Make them all. Raises OSError or what HDFS says."""
    for name, volume in volumes.items():
        path = path_of(name, volume, root)
        if volume["kind"] == "scratch":
            os.makedirs(path, exist_ok=True)
        elif volume["kind"] == "copy":
            _copy(urlsplit(str(volume["path"])).path, path, hdfs)


def _copy(source: str, path: str, hdfs: WebHdfs) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the others of this node wait for the first
        if os.path.exists(path):
            return
        partial = f"{path}.partial"
        shutil.rmtree(partial, ignore_errors=True)  # of one that was ended before it was done
        status = hdfs.stat(source)
        if status is None:
            raise FileNotFoundError(f"{source} is not on HDFS")
        if status.is_directory:
            _copy_directory(source, partial, hdfs)
        else:
            _copy_file(source, partial, hdfs)
        os.rename(partial, path)


def _copy_directory(source: str, path: str, hdfs: WebHdfs) -> None:
    os.makedirs(path, exist_ok=True)
    for name, status in hdfs.list(source):
        copy = _copy_directory if status.is_directory else _copy_file
        copy(f"{source}/{name}", os.path.join(path, name), hdfs)


def _copy_file(source: str, path: str, hdfs: WebHdfs) -> None:
    with hdfs.open(source) as stream, open(path, "wb") as out:
        while data := stream.read(1 << 20):
            out.write(data)
    os.chmod(path, 0o444)  # `copy` is read-only
