"""How a question reaches a NameNode or a DataNode over HTTP, and what an answer means.

Asked again, within ``patience``, is when nobody answers, a standby answers, HDFS is in safe mode,
or a DataNode does not take or give the data. What the questions are for: see ``webhdfs``.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from dromon.hadoop.failover import GiveUp, Policy, Trouble
from dromon.hadoop.hdfsfaults import (
    HdfsError,
    HdfsUnreachable,
    NoDataNode,
    SafeMode,
    explained,
)
from dromon.hadoop.httplines import CONNECT_TIMEOUT, Body, Line, Lines, NotConnected

T = TypeVar("T")

# A DataNode whose own line to the NameNode broke says so in these words; asked again, it has a new
# one. The first is what each DataNode says once after its NameNode was restarted.
PASSING = frozenset(
    {
        "EOFException",
        "ConnectException",
        "SocketTimeoutException",
        "SocketException",
        "RetriableException",
    }
)
VERBS = {
    "OPEN": "read",
    "CREATE": "write",
    "GETFILESTATUS": "look at",
    "LISTSTATUS": "list",
    "MKDIRS": "make directory",
    "RENAME": "rename",
    "DELETE": "delete",
    "SETTIMES": "set the time of",
    "SETPERMISSION": "set the permission of",
}


class Again(Exception):
    """One attempt failed in a way that another may not."""

    def __init__(self, trouble: Trouble, error: HdfsError) -> None:
        super().__init__(str(error))
        self.trouble = trouble
        self.error = error


class Upload:
    """The bytes of one write, over all its attempts."""

    def __init__(self, data: bytes | BinaryIO) -> None:
        self._data = data
        self.broken = False  # a line broke: the DataNode may have got it all
        self.excluded: list[str] = []  # DataNodes that did not take it
        self.repeatable = isinstance(data, bytes) or data.seekable()
        self._start = 0 if isinstance(data, bytes) or not data.seekable() else data.tell()

    def start(self) -> tuple[bytes | BinaryIO, dict[str, str]]:
        headers = {"Content-Type": "application/octet-stream"}
        if isinstance(self._data, bytes):
            return self._data, headers
        if not self.repeatable:
            return self._data, {**headers, "Transfer-Encoding": "chunked"}
        end = self._data.seek(0, os.SEEK_END)
        self._data.seek(self._start)
        return self._data, {**headers, "Content-Length": str(end - self._start)}


class Caller:
    """Threads may share it. ``nodes``: the NameNodes' URLs, in any order."""

    def __init__(
        self,
        nodes: Sequence[str],
        user: str,
        token: str,
        patience: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._nodes = [node.rstrip("/") for node in nodes]
        self._user = user
        self.token = token
        self._patience = patience
        self._policy = Policy(base=0.2, cap=3.0, patience=patience)
        self._active = 0
        self.lines = Lines(tls)

    def insist(self, attempt: Callable[[str], T]) -> T:
        """What ``attempt`` returns, which is given a NameNode; raised is only what is final."""
        began, failures = 0.0, 0  # of the first failure: an upload may take longer than patience
        while True:
            asked = self._active % len(self._nodes)
            try:
                return attempt(self._nodes[asked])
            except Again as again:
                failures += 1
                began = began or time.monotonic()
                step = self._policy.after(
                    again.trouble,
                    failures=failures,
                    server=asked,
                    servers=len(self._nodes),
                    elapsed=time.monotonic() - began,
                    chance=random.random(),
                )
                if isinstance(step, GiveUp):
                    raise self._given_up(again.error, time.monotonic() - began) from again
            time.sleep(step.wait)
            self._active = step.server

    # ---- one attempt each ---------------------------------------------------------------------

    def ask(
        self, node: str, method: str, op: str, path: str, params: Mapping[str, str]
    ) -> dict[str, Any]:
        """What the NameNode itself answers."""
        doing = f"{VERBS[op]} {path}"
        line = self._line(node, doing)
        try:
            answer = _sent(line, node, doing, method, self._target(op, path, params))
            data = received(answer, node, doing)
        finally:
            line.finish()
        return _object(data, node, doing)

    def opened(
        self, node: str, path: str, params: Mapping[str, str]
    ) -> tuple[Line, http.client.HTTPResponse, str]:
        """The DataNode's answer, its body not yet read, and who that is. Finish the line."""
        doing = f"read {path}"
        line = self._line(node, doing)
        try:
            answer = _sent(line, node, doing, "GET", self._target("OPEN", path, params))
            if answer.status == 200:  # a gateway (HttpFS) gives the bytes itself
                return line, answer, node
            place, target = self._elsewhere(answer, node, doing)
        except BaseException:
            line.finish()
            raise
        line.finish()
        line = self._line(place, doing, "DataNode")
        try:
            answer = _sent(line, place, doing, "GET", target)
            if answer.status >= 300:
                received(answer, place, doing)
        except BaseException:
            line.finish()
            raise
        return line, answer, place

    def put(self, node: str, path: str, params: Mapping[str, str], upload: Upload) -> None:
        doing = f"write {path}"
        exclude = {"excludedatanodes": ",".join(upload.excluded)} if upload.excluded else {}
        try:
            place, target = self._redirect(node, path, {**params, **exclude})
        except Again:
            upload.excluded = []  # perhaps nobody is left: those that failed may be back
            raise
        try:
            line = self._line(place, doing, "DataNode")
        except Again:
            upload.excluded = _names(place)
            raise
        try:
            body, headers = upload.start()
            answer = _sent(line, place, doing, "PUT", target, body, headers)
            received(answer, place, doing)
        except Again as again:
            if again.trouble is Trouble.LOST:
                upload.broken = True
                upload.excluded = _names(place)
            if not upload.repeatable:
                raise again.error from again
            # A file that no DataNode took is there all the same, empty. Only a writer that may
            # overwrite can try again.
            untaken = again.trouble is Trouble.BUSY and isinstance(again.error, NoDataNode)
            if untaken and params.get("overwrite") != "true":
                raise again.error from again
            raise
        finally:
            line.finish()

    def _redirect(self, node: str, path: str, params: Mapping[str, str]) -> tuple[str, str]:
        """Where a new file's bytes should go."""
        doing = f"write {path}"
        line = self._line(node, doing)
        try:
            answer = _sent(line, node, doing, "PUT", self._target("CREATE", path, params))
            return self._elsewhere(answer, node, doing)
        finally:
            line.finish()

    def _elsewhere(
        self, answer: http.client.HTTPResponse, node: str, doing: str
    ) -> tuple[str, str]:
        """Whom to ask, and what: the NameNode's word on where the bytes are or should go."""
        received(answer, node, doing)
        parts = urlsplit(answer.getheader("Location") or "")
        if not parts.netloc or (node.startswith("https:") and parts.scheme != "https"):
            raise _no_webhdfs(node, doing, "names no DataNode to ask")
        return f"{parts.scheme}://{parts.netloc}", f"{parts.path}?{parts.query}"

    def _target(self, op: str, path: str, params: Mapping[str, str]) -> str:
        # Both, where both are known: with security off a NameNode ignores tokens, and whoever
        # gives no name is a stranger; with security on the two must agree.
        who = {"delegation": self.token, "user.name": self._user}
        asked = {"op": op, **params, **{name: value for name, value in who.items() if value}}
        return f"/webhdfs/v1{quote(path)}?{urlencode(asked)}"

    def _line(self, base: str, doing: str, who: str = "NameNode") -> Line:
        try:
            return self.lines.line(base, min(CONNECT_TIMEOUT, max(1.0, self._patience)))
        except NotConnected as error:
            text = f"Cannot {doing}: the {who} at {base} does not answer ({error})."
            if who == "DataNode":
                raise Again(Trouble.BUSY, NoDataNode(text, exception="NotConnected")) from error
            raise Again(Trouble.UNREACHED, HdfsUnreachable(text)) from error

    def _given_up(self, error: HdfsError, waited: float) -> HdfsError:
        text = str(error)
        if isinstance(error, HdfsUnreachable) and len(self._nodes) > 1:
            text = f"{text} Asked were {' and '.join(self._nodes)}."
        if waited >= 1:
            text = f"{text} (Tried for {waited:.0f} s.)"
        return type(error)(text, exception=error.exception, hint=error.hint)


def received(answer: http.client.HTTPResponse, base: str, doing: str) -> bytes:
    """The whole body; a refusal in it is raised."""
    try:
        data = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise broken(base, doing, error) from error
    if answer.status >= 400:
        raise _refused(answer.status, data, base, doing)
    return data


def broken(base: str, doing: str, error: Exception) -> Again:
    why = str(error) or type(error).__name__
    text = f"Cannot {doing}: the line to {base} broke ({why})."
    kind = NoDataNode if doing.split()[0] in ("read", "write") else HdfsUnreachable
    return Again(Trouble.LOST, kind(text))


def _sent(
    line: Line,
    base: str,
    doing: str,
    method: str,
    target: str,
    body: Body = None,
    headers: Mapping[str, str] | None = None,
) -> http.client.HTTPResponse:
    try:
        return line.ask(method, target, body, headers)
    except (OSError, http.client.HTTPException) as error:
        raise broken(base, doing, error) from error


def _refused(status: int, data: bytes, base: str, doing: str) -> Exception:
    try:
        said = json.loads(data)["RemoteException"]
        exception, text = str(said.get("javaClassName") or said["exception"]), str(said["message"])
    except (ValueError, KeyError, TypeError, AttributeError):
        if status == 401:
            return explained("AuthenticationException", f"{base} answers 401", doing)
        return _no_webhdfs(base, doing, f"answers {status}, but not as WebHDFS does")
    if "StandbyException" in exception or "StandbyException" in text:
        return Again(Trouble.STANDBY, HdfsUnreachable(f"Cannot {doing}: {base} is on standby."))
    error = explained(exception, text, doing)
    if error.exception in PASSING or isinstance(error, (SafeMode, NoDataNode)):
        return Again(Trouble.BUSY, error)
    return error


def _no_webhdfs(base: str, doing: str, what: str) -> HdfsUnreachable:
    return HdfsUnreachable(
        f"Cannot {doing}: {base} {what}.",
        hint="Is it the address of a NameNode's web page, and is dfs.webhdfs.enabled on?",
    )


def _object(data: bytes, base: str, doing: str) -> dict[str, Any]:
    if not data:
        return {}
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _no_webhdfs(base, doing, "does not answer as WebHDFS does")
    return found


def _names(place: str) -> list[str]:
    """A DataNode as the NameNode may know it: by its host's address, else its name."""
    host = urlsplit(place).hostname or ""
    try:
        return [socket.gethostbyname(host)]
    except OSError:
        return [host]
