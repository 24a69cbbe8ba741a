"""An API server in memory that speaks the real bytes: HTTPS, chunked watches, Status objects.

Objects of any kind of a known group, with resourceVersions, selectors, pages, apply, deletion. Its
moods are scripted: `say` answers the next requests in another way, `cut` hangs up on everybody,
`compact` forgets what was.
"""

import json
import re
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from dromon.engines.kubernetes.access import Server

HANG_UP = "hang up"  # no answer, and the connection is closed
ACT_AND_HANG_UP = "act"  # it is done, and the answer is lost

GROUPS = {
    "", "batch", "batch.volcano.sh", "scheduling.volcano.sh", "bus.volcano.sh",
    "scheduling.k8s.io", "authorization.k8s.io",
}  # fmt: skip
PATH = re.compile(
    r"^/(?:api|apis/(?P<group>[^/]+))/(?P<version>v\w+)"
    r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>\w+)"
    r"(?:/(?P<name>[^/]+)(?P<rest>/.*)?)?$"
)


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    client: str = ""  # the name in the client's certificate

    @property
    def data(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    code: int
    body: Any = None  # an object, or text
    headers: dict[str, str] = field(default_factory=dict)


def status(code: int, reason: str, message: str, **details: Any) -> Answer:
    return Answer(
        code,
        {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code, "details": details,
        },
    )  # fmt: skip


class ApiServer:
    """`users`: by token; empty for anybody. `tls`: certificates made by `Certificates`."""

    def __init__(self, tls: "Certificates | None" = None) -> None:
        self.users: dict[str, str] = {}
        self.groups = set(GROUPS)
        self.requests: list[Request] = []
        self.said: list[Answer | str] = []
        self.logs: dict[str, list[bytes]] = {}  # by pod; None at the end of one that goes on
        self.pages: Callable[[Request, str], Answer] | None = None  # what pods answer
        self.bookmarks = 0.0
        self.connections = 0
        self._objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._history: list[tuple[int, str, str, dict[str, Any]]] = []
        self._version = 100
        self._forgotten = 0
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        self._over = False
        server = self

        class Handler(_Handler):
            api = server

        self._http = _Server(("127.0.0.1", 0), Handler)
        self._http.owner = self
        if tls is not None:
            self._http.tls = tls.server_context()
        scheme = "http" if tls is None else "https"
        self.port = int(self._http.server_address[1])
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._http.shutdown()
        self._http.server_close()
        self.cut()
        self._thread.join()

    # ---- moods ----------------------------------------------------------------------------------

    def say(self, *answers: Answer | str) -> None:
        """For the next requests, one each."""
        self.said += answers

    def cut(self) -> None:
        """Hangs up on everybody."""
        for sock in list(self._open):
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                pass

    def want_certificates(self, version: ssl.TLSVersion) -> None:
        """Nobody comes in without one any more."""
        assert self._http.tls is not None
        self._http.tls.verify_mode = ssl.CERT_REQUIRED
        self._http.tls.maximum_version = version

    def compact(self) -> None:
        """No watch and no page goes on from before now."""
        with self._changed:
            self._history.clear()
            self._forgotten = self._version

    # ---- objects --------------------------------------------------------------------------------

    def put(self, path: str, item: dict[str, Any]) -> dict[str, Any]:
        """`put("/api/v1/namespaces/default/pods", {"metadata": {"name": "a"}})`."""
        found = PATH.match(path)
        assert found, path
        with self._changed:
            namespace = unquote(found["namespace"] or "")
            key = (f"{found['group'] or ''}/{found['plural']}", namespace, item["metadata"]["name"])
            is_new = key not in self._objects
            self._version += 1
            metadata = {
                "uid": f"uid-{self._version}",
                **(self._objects[key]["metadata"] if not is_new else {}),
                **item["metadata"],
                "resourceVersion": str(self._version),
                "managedFields": [{"manager": "somebody"}],
            }
            if namespace:
                metadata["namespace"] = namespace
            made = {**item, "metadata": metadata}
            self._objects[key] = made
            self._tell("ADDED" if is_new else "MODIFIED", key, made)
            return made

    def remove(self, key: tuple[str, str, str]) -> dict[str, Any]:
        with self._changed:
            item = self._objects.pop(key)
            self._version += 1
            item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self._version)}}
            self._tell("DELETED", key, item)
            return item

    def delete(self, plural: str, name: str, namespace: str = "default") -> None:
        self.remove((plural if "/" in plural else f"/{plural}", namespace, name))

    def _tell(self, kind: str, key: tuple[str, str, str], item: dict[str, Any]) -> None:
        self._history.append((self._version, kind, "|".join(key), item))
        self._changed.notify_all()

    # ---- requests -------------------------------------------------------------------------------

    def answer(self, request: Request) -> Answer | str | Iterator[bytes]:
        who = self._who(request)
        if not who:
            return status(401, "Unauthorized", "Unauthorized")
        if request.path == "/version":
            return Answer(200, {"gitVersion": "v1.35.8"})
        found = PATH.match(request.path)
        if found is None or (found["group"] or "") not in self.groups:
            return Answer(404, "404 page not found\n")
        kind = f"{found['group'] or ''}/{found['plural']}"
        namespace, name = unquote(found["namespace"] or ""), unquote(found["name"] or "")
        rest = found["rest"] or ""
        if rest == "/log":
            return self._log(request, name)
        if rest.startswith("/proxy"):
            assert self.pages is not None
            return self.pages(request, rest.removeprefix("/proxy"))
        if not name:
            return self._all(request, kind, namespace)
        return self._one(request, (kind, namespace, name))

    def _who(self, request: Request) -> str:
        if not self.users:
            return "anybody"
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return self.users.get(token, "") or request.client

    def _all(self, request: Request, kind: str, namespace: str) -> Answer | Iterator[bytes]:
        if request.method == "POST":
            return self._create(request, kind, namespace)
        wanted = _selector(request.query)
        if request.query.get("watch"):
            return self._watch(request, kind, namespace, wanted)
        with self._changed:
            names = [
                key
                for key, item in sorted(self._objects.items())
                if key[0] == kind and namespace in ("", key[1]) and wanted(item)
            ]
            if request.method == "DELETE":
                return Answer(200, {"items": [self.remove(key) for key in names]})
            start, version = 0, self._version
            if token := request.query.get("continue"):
                start, version = (int(word) for word in token.split("-"))
                if version < self._forgotten:
                    return status(410, "Expired", "The provided continue parameter is too old")
            limit = int(request.query.get("limit", 0)) or len(names)
            metadata = {"resourceVersion": str(version)}
            if start + limit < len(names):
                metadata["continue"] = f"{start + limit}-{version}"
            items = [self._objects[key] for key in names[start : start + limit]]
            return Answer(200, {"kind": "List", "metadata": metadata, "items": items})

    def _create(self, request: Request, kind: str, namespace: str) -> Answer:
        item = request.data
        name = item["metadata"]["name"]
        if (kind, namespace, name) in self._objects:
            plural = kind.partition("/")[2]
            return status(
                409, "AlreadyExists", f'{plural} "{name}" already exists', name=name, kind=plural
            )
        if request.query.get("dryRun"):
            return Answer(201, item)
        return Answer(201, self.put(request.path, item))

    def _one(self, request: Request, key: tuple[str, str, str]) -> Answer:
        path = request.path.rpartition("/")[0]
        item = self._objects.get(key)
        if request.method == "PATCH" and request.headers["content-type"].startswith(
            "application/apply"
        ):
            assert request.query["fieldManager"] == "dromon"
            given = request.data
            if request.query.get("dryRun"):
                return Answer(200, given)
            return Answer(200 if item else 201, self.put(path, {**(item or {}), **given}))
        if item is None:
            plural = key[0].partition("/")[2]
            return status(
                404, "NotFound", f'{plural} "{key[2]}" not found', name=key[2], kind=plural
            )
        if request.method == "PATCH":
            return Answer(200, self.put(path, _merged(item, request.data)))
        if request.method == "DELETE":
            uid = (request.data.get("preconditions") or {}).get("uid")
            if uid and uid != item["metadata"]["uid"]:
                return status(409, "Conflict", "the UID in the precondition does not match")
            return Answer(200, self.remove(key))
        return Answer(200, item)

    def _watch(
        self,
        request: Request,
        kind: str,
        namespace: str,
        wanted: Callable[[dict[str, Any]], bool],
    ) -> Answer | Iterator[bytes]:
        seen = int(request.query["resourceVersion"])
        if seen < self._forgotten:
            return status(410, "Expired", f"too old resource version: {seen}")
        return self._changes(seen, kind, namespace, wanted)

    def _changes(
        self, seen: int, kind: str, namespace: str, wanted: Callable[[dict[str, Any]], bool]
    ) -> Iterator[bytes]:
        while True:
            with self._changed:
                if seen < self._forgotten:
                    gone = status(410, "Expired", f"too old resource version: {seen}").body
                    found = [("ERROR", gone)]
                else:
                    found = [
                        (type, item)
                        for version, type, key, item in self._history
                        if version > seen
                        and key.split("|")[0] == kind
                        and namespace in ("", key.split("|")[1])
                        and wanted(item)
                    ]
                    seen = self._version
                    if not found and self.bookmarks:
                        bookmark = {"metadata": {"resourceVersion": str(seen)}}
                        found = [("BOOKMARK", bookmark)]
            for type, item in found:
                yield json.dumps({"type": type, "object": item}).encode() + b"\n"
                if type == "ERROR":
                    return
            with self._changed:
                if self._version == seen and self._forgotten <= seen:
                    self._changed.wait(self.bookmarks or None)
                if self._over:
                    return

    def _log(self, request: Request, pod: str) -> Answer | Iterator[bytes]:
        if pod not in self.logs:
            said = f'container "main" in pod "{pod}" is waiting to start: ContainerCreating'
            return status(400, "BadRequest", said)
        return iter(self.logs[pod])


_LABEL = re.compile(r"([\w./-]+)(=([^,]*)| in \(([^)]*)\))?")  # `a`, `a=b` or `a in (b,c)`


def _selector(query: dict[str, str]) -> Callable[[dict[str, Any]], bool]:
    labels = _LABEL.findall(query.get("labelSelector", ""))
    fields = dict(word.split("=", 1) for word in query.get("fieldSelector", "").split(",") if word)
    name = fields.get("metadata.name")

    def wanted(item: dict[str, Any]) -> bool:
        has = item["metadata"].get("labels") or {}
        labelled = all(
            key in has and (not rest or has[key] in (one, *several.split(",")))
            for key, rest, one, several in labels
        )
        return labelled and name in (None, item["metadata"]["name"])

    return wanted


def _merged(item: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    made = dict(item) if isinstance(item, dict) else {}
    for key, value in patch.items():
        made[key] = _merged(made.get(key), value)
        if value is None:
            del made[key]
    return made


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: ApiServer
    tls: ssl.SSLContext | None = None

    def finish_request(self, request: Any, address: Any) -> None:
        """In the connection's own thread, so that nobody waits for another's handshake."""
        try:
            if self.tls is not None:
                request = self.tls.wrap_socket(request, server_side=True)
        except OSError:
            return
        self.owner.connections += 1
        self.owner._open.add(request)
        try:
            self.RequestHandlerClass(request, address, self)
        except OSError:
            pass
        finally:
            self.owner._open.discard(request)
            request.close()

    def handle_error(self, request: Any, address: Any) -> None:
        raise


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ApiServer

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        request = Request(
            self.command,
            parts.path,
            {key: values[0] for key, values in parse_qs(parts.query).items()},
            {key.lower(): value for key, value in self.headers.items()},
            self.rfile.read(int(self.headers.get("Content-Length") or 0)),
            self._client(),
        )
        request.headers["impersonate-groups"] = ",".join(
            self.headers.get_all("Impersonate-Group") or []
        )
        self.api.requests.append(request)
        scripted = self.api.said.pop(0) if self.api.said else None
        if scripted == HANG_UP:
            self.close_connection = True
            return
        answer = self.api.answer(request) if scripted in (None, ACT_AND_HANG_UP) else scripted
        if scripted == ACT_AND_HANG_UP:
            self.close_connection = True
            return
        if isinstance(answer, Answer):
            self._whole(answer)
        elif not isinstance(answer, str):
            self._chunked(answer)

    do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

    def _client(self) -> str:
        if not isinstance(self.connection, ssl.SSLSocket):
            return ""
        certificate = self.connection.getpeercert() or {}
        names = [value for pair in certificate.get("subject", ()) for _, value in pair]
        return str(names[0]) if names else ""

    def _whole(self, answer: Answer) -> None:
        is_text = isinstance(answer.body, str)
        body = answer.body.encode() if is_text else json.dumps(answer.body).encode()
        self.send_response(answer.code)
        self.send_header("Content-Type", "text/plain" if is_text else "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _chunked(self, pieces: Iterator[bytes]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Certificates:
    """An authority, a server's certificate for 127.0.0.1 and `api.test`, and clients'."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._make("ca", "-x509", "-subj", "/CN=authority", "-days", "2")
        self.signed("server", "subjectAltName=IP:127.0.0.1,DNS:api.test")

    @property
    def ca(self) -> str:
        return str(self._directory / "ca.crt")

    def signed(self, name: str, extension: str = "", *, days: int = 2) -> tuple[str, str]:
        """Paths of a certificate and its key."""
        self._make(name, "-subj", f"/CN={name}", out="csr")
        file = self._directory / f"{name}.ext"
        file.write_text(extension or "extendedKeyUsage=clientAuth")
        _openssl(
            "x509", "-req", "-in", self._directory / f"{name}.csr", "-CA", self.ca, "-CAkey",
            self._directory / "ca.key", "-CAcreateserial", "-days", str(days), "-extfile", file,
            "-out", self._directory / f"{name}.crt",
        )  # fmt: skip
        return str(self._directory / f"{name}.crt"), str(self._directory / f"{name}.key")

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._directory / "server.crt", self._directory / "server.key")
        context.load_verify_locations(self.ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _make(self, name: str, *more: str, out: str = "crt") -> None:
        _openssl(
            "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", self._directory / f"{name}.key", "-out", self._directory / f"{name}.{out}",
            *more,
        )  # fmt: skip


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def until(holds: Callable[[], bool]) -> None:
    """Waits; the test's own time limit ends it."""
    while not holds():
        time.sleep(0.01)


def reach(server: ApiServer, certificates: Certificates | None = None, **more: Any) -> Server:
    scheme = "https" if certificates else "http"
    ca = Path(certificates.ca).read_text() if certificates else ""
    given = {"ca": ca, "said": "config: clusters[c].cluster", **more}
    return Server(server.url, scheme, "127.0.0.1", server.port, "", **given)
