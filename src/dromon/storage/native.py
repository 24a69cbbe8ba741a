"""HDFS over its own protocols, through hdfs-native. The operations and errors are ``WebHdfs``'s.

Not for small files: hdfs-native waits half a second for a block that was just written. It acts
only as the user that the process is (``acts_as``). What it panics at is never asked of it.
"""

from __future__ import annotations

import io
import os
import pwd
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeVar

import hdfs_native

from dromon.hadoop.addresses import NameService
from dromon.hadoop.failover import GiveUp, Policy, Trouble
from dromon.hadoop.hdfsfaults import (
    HdfsError,
    HdfsUnreachable,
    NoDataNode,
    NotThere,
    SafeMode,
    explained,
)
from dromon.hadoop.site import Site
from dromon.hadoop.webhdfs import DIRECTORY, FILE, Listing, Status

T = TypeVar("T")
CHUNK = 4 * 1024 * 1024
Progress = Callable[[int, int], None]  # bytes done, bytes in all

# Of the site's own settings, what the client's side goes by.
_TAKEN = (
    "dfs.blocksize",
    "dfs.client.socket-timeout",
    "dfs.client.use.datanode.hostname",
    "dfs.data.transfer.protection",
    "dfs.replication",
    "hadoop.rpc.protection",
    "hadoop.security.authentication",
)
# How long to go on is decided here, not there: its own defaults take three minutes.
_BRIEF = {
    "dfs.client.failover.max.attempts": "2",
    "dfs.client.failover.sleep.base.millis": "100",
    "dfs.client.failover.sleep.max.millis": "1000",
}
_NODE = re.compile(r'ip_addr: \\*"([^"\\]+)\\*".*?xfer_port: (\d+)')
_RPC = re.compile(r'RPCError\("(?P<name>[^"]+)", "(?P<text>.*)"\)', re.DOTALL)


def acts_as() -> str:
    """The user hdfs-native speaks for; it takes no other."""
    return os.environ.get("HADOOP_USER_NAME") or pwd.getpwuid(os.geteuid()).pw_name


def settings(site: Site, service: NameService) -> dict[str, str]:
    found = {name: site.get(name) for name in _TAKEN if site.get(name)}
    if service.logical:
        name = service.name
        found["dfs.nameservices"] = name
        found[f"dfs.ha.namenodes.{name}"] = ",".join(node.id for node in service.nodes)
        for node in service.nodes:
            found[f"dfs.namenode.rpc-address.{name}.{node.id}"] = str(node.rpc)
    return {**found, **_BRIEF}


class Native:
    """One file system. Threads may share it."""

    def __init__(self, site: Site, service: NameService, *, patience: float = 30.0) -> None:
        place = service.name if service.logical else str(service.nodes[0].rpc)
        self._where = " and ".join(str(node.rpc) for node in service.nodes)
        self._policy = Policy(base=0.2, cap=3.0, patience=patience)
        self._client = hdfs_native.Client(f"hdfs://{place}", settings(site, service))

    # ---- bytes --------------------------------------------------------------------------------

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        def attempt() -> bytes:
            file = self._client.read(path)
            left = max(0, len(file) - offset)  # it panics past the end
            size = left if length is None else min(length, left)
            return file.read_range(offset, size) if size else b""

        return self._insist(attempt, f"read {path}", NoDataNode)

    def open(self, path: str, offset: int = 0) -> BinaryIO:
        return io.BufferedReader(_Stream(self, path, offset), CHUNK)

    def write(
        self,
        path: str,
        data: bytes | BinaryIO,
        *,
        overwrite: bool = True,
        permission: str = "600",
        make_parents: bool = True,
        progress: Progress | None = None,
    ) -> None:
        source = io.BytesIO(data) if isinstance(data, bytes) else data
        start = source.tell()
        total = source.seek(0, os.SEEK_END) - start
        options = hdfs_native.WriteOptions(
            permission=int(permission, 8), overwrite=overwrite, create_parent=make_parents
        )

        def attempt() -> None:
            source.seek(start)
            done = 0
            file = self._client.create(path, options)
            while chunk := source.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
            file.close()

        # Without overwriting it cannot be tried again: the first attempt's file is in the way.
        self._insist(attempt, f"write {path}", NoDataNode, repeatable=overwrite)

    # ---- names --------------------------------------------------------------------------------

    def stat(self, path: str) -> Status | None:
        try:
            return _status(
                self._insist(lambda: self._client.get_file_info(path), f"look at {path}")
            )
        except NotThere:
            return None

    def list(self, path: str) -> Listing:
        def attempt() -> Listing:
            found = self._client.list_status(path)
            return [(one.path.rstrip("/").rpartition("/")[2], _status(one)) for one in found]

        return sorted(self._insist(attempt, f"list {path}"), key=lambda entry: entry[0])

    def make_directory(self, path: str, permission: str = "700") -> None:
        self._insist(
            lambda: self._client.mkdirs(path, int(permission, 8), True), f"make directory {path}"
        )

    def rename(self, path: str, to: str, *, overwrite: bool = False) -> bool:
        # Hadoop has a strict and a lenient rename; hdfs-native knows the strict one only.
        target = self.stat(to)
        if not overwrite and target is not None:
            if not target.is_directory:
                return False
            to = f"{to}/{path.rpartition('/')[2]}"
        try:
            self._insist(lambda: self._client.rename(path, to, overwrite), f"rename {path}")
        except HdfsError as error:
            if error.exception in ("FileNotFoundException", "FileAlreadyExistsException"):
                return False
            raise
        return True

    def delete(self, path: str, recursive: bool = True) -> bool:
        return self._insist(lambda: self._client.delete(path, recursive), f"delete {path}")

    def set_times(self, path: str, mtime_ms: int) -> None:
        def attempt() -> None:  # it cannot leave the other time alone
            atime = self._client.get_file_info(path).access_time
            self._client.set_times(path, mtime_ms, atime)

        self._insist(attempt, f"set the time of {path}")

    def set_permission(self, path: str, permission: str) -> None:
        self._insist(
            lambda: self._client.set_permission(path, int(permission, 8)),
            f"set the permission of {path}",
        )

    def close(self) -> None:
        """Nothing to close: the lines go with the client."""

    def _insist(
        self,
        attempt: Callable[[], T],
        doing: str,
        kind: type[HdfsError] = HdfsUnreachable,
        *,
        repeatable: bool = True,
    ) -> T:
        began, failures = 0.0, 0  # of the first failure: an upload may take longer than patience
        while True:
            try:
                with self._explained(doing, kind):
                    return attempt()
            except (HdfsUnreachable, NoDataNode, SafeMode) as error:
                failures += 1
                began = began or time.monotonic()
                step = self._policy.after(
                    Trouble.BUSY,
                    failures=failures,
                    server=0,
                    servers=1,
                    elapsed=time.monotonic() - began,
                    chance=random.random(),
                )
                waited = time.monotonic() - began
                final = isinstance(step, GiveUp) or not (repeatable or isinstance(error, SafeMode))
                if final and waited >= 1:
                    text = f"{error} (Tried for {waited:.0f} s.)"
                    raise type(error)(text, exception=error.exception, hint=error.hint) from error
                if final or isinstance(step, GiveUp):
                    raise
            time.sleep(step.wait)

    @contextmanager
    def _explained(self, doing: str, kind: type[HdfsError]) -> Iterator[None]:
        """What hdfs-native raises, as what HDFS said. ``kind``: what a broken line means."""
        try:
            yield
        except FileNotFoundError as error:
            raise explained("FileNotFoundException", str(error), doing) from None
        except FileExistsError as error:
            raise explained("FileAlreadyExistsException", str(error), doing) from None
        except OSError as error:
            who = "a DataNode or the NameNode" if kind is NoDataNode else "the NameNode"
            raise kind(
                f"Cannot {doing}: {who} ({self._where}) does not answer: {error}.",
                exception="NotConnected",
            ) from error
        except RuntimeError as error:
            said = _RPC.search(str(error))
            if said is not None:
                text = said["text"].replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
                raise explained(said["name"], text, doing) from None
            text = str(error).partition("\n")[0]
            if "DataTransfer" in text or "BlocksNotFound" in text:
                raise NoDataNode(
                    f"Cannot {doing}: {_transfer(text)}", exception="NotConnected"
                ) from error
            raise HdfsError(f"Cannot {doing}: {text}") from error
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            raise HdfsError(f"Cannot {doing}: hdfs-native failed: {error}") from error


class _Stream(io.RawIOBase):
    """Up to what was the end when it was opened."""

    def __init__(self, hdfs: Native, path: str, offset: int) -> None:
        self._hdfs = hdfs
        self._path = path
        self._offset = offset
        self._file = hdfs._insist(lambda: hdfs._client.read(path), f"read {path}")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        size = min(len(view), max(0, len(self._file) - self._offset))
        if not size:
            return 0
        data = self._hdfs._insist(
            lambda: self._file.read_range(self._offset, size), f"read {self._path}", NoDataNode
        )
        view[: len(data)] = data
        self._offset += len(data)
        return len(data)


def _transfer(text: str) -> str:
    """Of all that hdfs-native knows of the DataNodes that failed, where they are."""
    if "All DataNodes failed" not in text:
        return text
    asked = [f"{match[1]}:{match[2]}" for match in _NODE.finditer(text)]
    if not asked:
        return "no DataNode that has it is alive."
    return f"no DataNode answers; asked: {', '.join(asked)}."


def _status(one: hdfs_native.FileStatus) -> Status:
    return Status(
        kind=DIRECTORY if one.isdir else FILE,
        length=one.length,
        mtime=one.modification_time,
        permission=f"{one.permission:o}",
        owner=one.owner,
        group=one.group,
        atime=one.access_time,
    )
