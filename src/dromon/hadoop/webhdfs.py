"""HDFS over HTTP (WebHDFS), with the standard library alone: what runs inside containers uses it.

A file that was being written when its writer died is there, cut short: write beside the place and
``rename``, or be able to tell a whole file from a part of one.
"""

from __future__ import annotations

import http.client
import io
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from dromon.hadoop.failover import Trouble
from dromon.hadoop.hdfsfaults import AlreadyThere, HdfsError, NotThere
from dromon.hadoop.httplines import Line
from dromon.hadoop.webcalls import Again, Caller, Upload, broken, received

CHUNK = 1024 * 1024
FILE, DIRECTORY = "FILE", "DIRECTORY"


@dataclass(frozen=True)
class Status:
    """A file or a directory. Times in milliseconds, as HDFS keeps them."""

    kind: str  # FILE or DIRECTORY (or SYMLINK)
    length: int
    mtime: int
    permission: str  # octal: "600"
    owner: str
    group: str = ""
    atime: int = 0  # of the last read, to the hour; at first of the making

    @property
    def is_directory(self) -> bool:
        return self.kind == DIRECTORY


Listing = list[tuple[str, Status]]


class WebHdfs:
    """One file system. ``nodes``: the URLs of its NameNodes, in any order. Threads may share it.

    ``user`` is believed where security is off; ``token`` is a delegation token in its URL form, and
    ``user``, if given beside it, must be the one it was issued to.
    ``patience``: seconds for which one call tries again what may yet succeed.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        user: str = "",
        token: str = "",
        *,
        patience: float = 30.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._caller = Caller(nodes, user, token, patience, tls)

    def use(self, token: str) -> None:
        """A newer token, from the next request on."""
        self._caller.token = token

    def close(self) -> None:
        self._caller.lines.close()

    # ---- bytes --------------------------------------------------------------------------------

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """What is there now; nothing at or past the end of a file, which may grow yet."""

        def attempt(node: str) -> bytes:
            line, answer, place = self._caller.opened(node, path, _range(offset, length))
            try:
                return received(answer, place, f"read {path}")
            finally:
                line.finish()

        try:
            return self._caller.insist(attempt)
        except HdfsError as error:
            if _past_the_end(error):
                return b""
            raise

    def open(self, path: str, offset: int = 0) -> BinaryIO:
        """A stream from there to what is the end now. A line that breaks is taken up again."""
        return io.BufferedReader(_Stream(self._caller, path, offset), CHUNK)

    def write(
        self,
        path: str,
        data: bytes | BinaryIO,
        *,
        overwrite: bool = True,
        permission: str = "600",
        make_parents: bool = True,
    ) -> None:
        """Exactly this, or an error. Without ``overwrite``, ``AlreadyThere``; without
        ``make_parents``, ``NotThere`` when the directory is gone: a writer is fenced off so.

        Without ``overwrite`` and after a line broke, a file with the very same bytes counts as
        ours. A stream that cannot seek is sent once only. Parents that are made get the permission
        of the directory they are made in.
        """
        params = {
            "overwrite": _flag(overwrite),
            "createparent": _flag(make_parents),
            "permission": permission,
        }
        upload = Upload(data)
        try:
            self._caller.insist(lambda node: self._caller.put(node, path, params, upload))
        except AlreadyThere:
            mine = upload.broken and isinstance(data, bytes) and self._holds(path, data)
            if overwrite or not mine:
                raise

    # ---- names --------------------------------------------------------------------------------

    def stat(self, path: str) -> Status | None:
        try:
            return _status(self._ask("GET", "GETFILESTATUS", path)["FileStatus"])
        except NotThere:
            return None

    def list(self, path: str) -> Listing:
        """The names in a directory, in order."""
        answer = self._ask("GET", "LISTSTATUS", path)["FileStatuses"]["FileStatus"]
        found = [(str(one["pathSuffix"]), _status(one)) for one in answer]
        return sorted(found, key=lambda entry: entry[0])

    def make_directory(self, path: str, permission: str = "700") -> None:
        """Parents too. One that is there stays as it is."""
        if not self._ask("PUT", "MKDIRS", path, permission=permission).get("boolean"):
            raise HdfsError(f"Cannot make directory {path}: the NameNode would not.")

    def rename(self, path: str, to: str, *, overwrite: bool = False) -> bool:
        """In one step. False: there is something at ``to``, or nothing at ``path``, or ``to`` has
        no directory. Onto a directory, without ``overwrite``: into it."""
        lost: list[Again] = []
        extra = {"renameoptions": "OVERWRITE"} if overwrite else {}
        try:
            answer = self._ask("PUT", "RENAME", path, lost, destination=to, **extra)
            done = bool(answer.get("boolean", True))
        except NotThere:
            done = False
        if not done and lost:  # it may have been done when the line broke
            done = self.stat(path) is None and self.stat(to) is not None
        return done

    def delete(self, path: str, recursive: bool = True) -> bool:
        """Was there anything to delete?"""
        lost: list[Again] = []
        answer = self._ask("DELETE", "DELETE", path, lost, recursive=_flag(recursive))
        return bool(answer.get("boolean")) or bool(lost)

    def set_times(self, path: str, mtime_ms: int) -> None:
        self._ask("PUT", "SETTIMES", path, modificationtime=str(mtime_ms))

    def set_permission(self, path: str, permission: str) -> None:
        self._ask("PUT", "SETPERMISSION", path, permission=permission)

    def _ask(
        self, method: str, op: str, path: str, lost: Any = None, **params: str
    ) -> dict[str, Any]:
        """``lost`` (a list) takes down each attempt that may have been carried out all the same."""

        def attempt(node: str) -> dict[str, Any]:
            try:
                return self._caller.ask(node, method, op, path, params)
            except Again as again:
                if again.trouble is Trouble.LOST and lost is not None:
                    lost.append(again)
                raise

        return self._caller.insist(attempt)

    def _holds(self, path: str, data: bytes) -> bool:
        try:
            return self.read(path) == data
        except NotThere:
            return False


class _Stream(io.RawIOBase):
    """A file from an offset on; opened anew where a line broke."""

    def __init__(self, caller: Caller, path: str, offset: int) -> None:
        self._caller = caller
        self._path = path
        self._offset = offset
        self._line: Line | None = None
        self._answer: http.client.HTTPResponse | None = None
        self._left: int | None = None
        try:
            caller.insist(self._connected)
        except HdfsError as error:
            if not _past_the_end(error):
                raise
            self._left = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._left == 0:
            return 0
        view = memoryview(buffer)
        got = self._caller.insist(lambda node: self._some(node, view))
        self._offset += got
        if not got:
            self._left = 0
        elif self._left is not None:
            self._left -= got
        return got

    def close(self) -> None:
        if not self.closed:
            self._drop()
        super().close()

    def _connected(self, node: str) -> http.client.HTTPResponse:
        if self._answer is None:
            self._line, self._answer, _ = self._caller.opened(
                node, self._path, _range(self._offset, self._left)
            )
            if self._left is None:
                self._left = self._answer.length
        return self._answer

    def _some(self, node: str, view: memoryview) -> int:
        answer = self._connected(node)
        try:
            got = answer.readinto(view if self._left is None else view[: self._left])
            if not got and self._left:
                raise http.client.IncompleteRead(b"", self._left)
            return got
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            raise broken("the DataNode", f"read {self._path}", error) from error

    def _drop(self) -> None:
        line, self._line, self._answer = self._line, None, None
        if line is not None:
            line.finish()


def _past_the_end(error: HdfsError) -> bool:
    return error.exception == "IOException" and "out of the range" in str(error)


def _status(message: dict[str, Any]) -> Status:
    return Status(
        kind=message["type"],
        length=message["length"],
        mtime=message["modificationTime"],
        permission=message["permission"],
        owner=message["owner"],
        group=message["group"],
        atime=message["accessTime"],
    )


def _range(offset: int, length: int | None) -> dict[str, str]:
    return {"offset": str(offset), **({} if length is None else {"length": str(length)})}


def _flag(value: bool) -> str:
    return "true" if value else "false"
