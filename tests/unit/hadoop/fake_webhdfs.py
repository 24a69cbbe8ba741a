"""A NameNode and a DataNode over HTTP, in memory, that fail when told to."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

PREFIX, DATA = "/webhdfs/v1", "/data"
STANDBY = ("org.apache.hadoop.ipc.StandbyException", "Operation category READ is not supported")
SAFE_MODE = (
    "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
    "Cannot create file. Name node is in safe mode.\nThe reported blocks 0 needs additional 1",
)
END_OF_FILE = ("java.io.EOFException", "End of File Exception between local host is: a, and b")


@dataclass
class Entry:
    data: bytes | None  # None: a directory
    permission: str
    owner: str
    mtime: int
    atime: int

    def to_json(self, name: str) -> dict[str, Any]:
        return {
            "accessTime": self.atime, "group": "staff", "length": len(self.data or b""),
            "modificationTime": self.mtime, "owner": self.owner, "pathSuffix": name,
            "permission": self.permission, "type": "DIRECTORY" if self.data is None else "FILE",
        }  # fmt: skip


@dataclass
class Fault:
    """What happens to the next request with this op, at the NameNode or (``data``) the DataNode."""

    op: str
    data: bool = False
    refusal: tuple[str, str] | None = None  # None: the line is dropped without an answer
    done: bool = False  # it is carried out all the same
    cut: int | None = None  # after so many bytes of the answer the line is dropped


class Refusal(Exception):
    def __init__(self, name: str, text: str, status: int = 403) -> None:
        super().__init__(text)
        self.name, self.text, self.status = name, text, status


@dataclass
class Tree:
    """The file system; several NameNodes may share it."""

    entries: dict[str, Entry] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.entries["/"] = Entry(None, "755", "root", 0, 0)

    def make(self, path: str, data: bytes | None, permission: str, owner: str) -> None:
        now = int(time.time() * 1000)
        parent = path.rpartition("/")[0]
        if parent and parent not in self.entries:
            self.make(parent, None, "755", owner)
        if data is None and path in self.entries:
            return
        self.entries[path] = Entry(data, permission, owner, now, now)

    def below(self, path: str) -> list[str]:
        return [name for name in self.entries if name.startswith(path.rstrip("/") + "/")]


class FakeWebHdfs:
    """``with FakeWebHdfs() as fake: WebHdfs([fake.url])``. ``asked`` takes down what was asked."""

    def __init__(self, tree: Tree | None = None) -> None:
        self.tree = tree or Tree()
        self.faults: list[Fault] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.connections = 0
        self.received = 0  # bytes of files
        self.standby = False
        self.meanwhile: dict[str, Callable[[], None]] = {}  # done once, just before that op
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = 65536

            def setup(self) -> None:
                super().setup()
                fake.connections += 1

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_GET(self) -> None:
                fake.serve(self)

            do_PUT = do_DELETE = do_GET  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "FakeWebHdfs":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def ops(self) -> list[str]:
        return [op for op, _ in self.asked]

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        params = dict(parse_qsl(parts.query, keep_blank_values=True))
        data = parts.path.startswith(DATA)
        path = unquote(parts.path[len(DATA if data else PREFIX) :]) or "/"
        body = self._body(request)
        op = params["op"]
        self.asked.append((f"{op} at the DataNode" if data else op, params))
        self.meanwhile.pop(op, lambda: None)()
        fault = next((f for f in self.faults if f.op == op and f.data == data), None)
        if fault is not None:
            self.faults.remove(fault)
            if fault.done:
                self._answer(op, path, params, body, data)
            if fault.refusal is not None:
                self._send(request, 403, _error(*fault.refusal), data)
                return
            if fault.cut is None:
                request.close_connection = True
                return
        try:
            if self.standby and not data:
                raise Refusal(*STANDBY)
            status, answer, place = self._answer(op, path, params, body, data)
        except Refusal as refusal:
            status, answer, place = refusal.status, _error(refusal.name, refusal.text), ""
        cut = fault.cut if fault is not None else None
        self._send(request, status, answer, data, place, cut)

    def _body(self, request: BaseHTTPRequestHandler) -> bytes:
        if request.headers.get("Transfer-Encoding") == "chunked":
            found = b""
            while size := int(request.rfile.readline(), 16):
                found += request.rfile.read(size)
                request.rfile.readline()
            request.rfile.readline()
            return found
        return request.rfile.read(int(request.headers.get("Content-Length") or 0))

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        answer: bytes,
        data: bool,
        place: str = "",
        cut: int | None = None,
    ) -> None:
        request.send_response(status)
        if place:
            request.send_header("Location", place)
        if data:
            request.send_header("Connection", "close")
        request.send_header("Content-Length", str(len(answer)))
        request.end_headers()
        request.wfile.write(answer if cut is None else answer[:cut])
        request.close_connection = data or cut is not None

    def _answer(
        self, op: str, path: str, params: dict[str, str], body: bytes, data: bool
    ) -> tuple[int, bytes, str]:
        with self.tree.lock:
            if op in ("CREATE", "OPEN") and not data:
                if op == "OPEN":
                    self._range(path, params)
                return 307, b"", f"{self.url}{DATA}{quote(path)}?{urlencode(params)}"
            return getattr(self, f"_{op.lower()}")(path, params, body)

    def _create(self, path: str, params: dict[str, str], body: bytes) -> tuple[int, bytes, str]:
        parent = path.rpartition("/")[0] or "/"
        if params["createparent"] == "false" and parent not in self.tree.entries:
            raise _missing(f"Parent directory doesn't exist: {parent}")
        if params["overwrite"] == "false" and path in self.tree.entries:
            name = "org.apache.hadoop.fs.FileAlreadyExistsException"
            raise Refusal(name, f"{path} for client 127.0.0.1 already exists")
        self.received += len(body)
        self.tree.make(path, body, params["permission"], params.get("user.name", "dr.who"))
        return 201, b"", ""

    def _range(self, path: str, params: dict[str, str]) -> bytes:
        content = self._entry(path).data or b""
        offset = int(params.get("offset", 0))
        if offset >= len(content) and offset:
            text = f"Offset={offset} out of the range [0, {len(content)}); OPEN, path={path}"
            raise Refusal("java.io.IOException", text)
        return content[offset : offset + int(params.get("length", len(content)))]

    def _open(self, path: str, params: dict[str, str], body: bytes) -> tuple[int, bytes, str]:
        return 200, self._range(path, params), ""

    def _entry(self, path: str) -> Entry:
        if path not in self.tree.entries:
            raise _missing(f"File does not exist: {path}")
        return self.tree.entries[path]

    def _getfilestatus(self, path: str, *_: Any) -> tuple[int, bytes, str]:
        return _json({"FileStatus": self._entry(path).to_json("")})

    def _liststatus(self, path: str, *_: Any) -> tuple[int, bytes, str]:
        self._entry(path)
        start = len(path.rstrip("/")) + 1
        names = [name[start:] for name in self.tree.below(path)]
        found = [
            self.tree.entries[f"{path.rstrip('/')}/{name}"].to_json(name)
            for name in names
            if "/" not in name
        ]
        return _json({"FileStatuses": {"FileStatus": found}})

    def _mkdirs(self, path: str, params: dict[str, str], body: bytes) -> tuple[int, bytes, str]:
        self.tree.make(path, None, params["permission"], params.get("user.name", "dr.who"))
        return _json({"boolean": True})

    def _rename(self, path: str, params: dict[str, str], body: bytes) -> tuple[int, bytes, str]:
        to, tree = params["destination"], self.tree
        overwrite = params.get("renameoptions") == "OVERWRITE"
        if overwrite and path not in tree.entries:
            raise _missing(f"rename source {path} is not found.")
        parent = to.rpartition("/")[0] or "/"
        if (to in tree.entries and not overwrite) or not {path, parent} <= set(tree.entries):
            return _json({"boolean": False})
        for name in [path, *tree.below(path)]:
            tree.entries[to + name[len(path) :]] = tree.entries.pop(name)
        return (200, b"", "") if overwrite else _json({"boolean": True})

    def _delete(self, path: str, params: dict[str, str], body: bytes) -> tuple[int, bytes, str]:
        below = self.tree.below(path)
        if below and params["recursive"] == "false":
            raise Refusal(
                "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", f"{path} is non empty"
            )
        there = path in self.tree.entries
        for name in [path, *below] if there else []:
            del self.tree.entries[name]
        return _json({"boolean": there})

    def _settimes(self, path: str, params: dict[str, str], body: bytes) -> tuple[int, bytes, str]:
        self._entry(path).mtime = int(params["modificationtime"])
        return 200, b"", ""

    def _setpermission(
        self, path: str, params: dict[str, str], body: bytes
    ) -> tuple[int, bytes, str]:
        self._entry(path).permission = params["permission"]
        return 200, b"", ""


def _json(message: dict[str, Any]) -> tuple[int, bytes, str]:
    return 200, json.dumps(message).encode(), ""


def _missing(text: str) -> Refusal:
    return Refusal("java.io.FileNotFoundException", text, 404)


def _error(name: str, text: str) -> bytes:
    said = {"exception": name.rpartition(".")[2], "javaClassName": name, "message": text}
    return json.dumps({"RemoteException": said}).encode()
