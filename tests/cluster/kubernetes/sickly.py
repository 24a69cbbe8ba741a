"""An API server in front of the real one, which is ill for a while: it answers 429, 500 or 503, or
hangs up. Everything else goes through to the real one and back, watches too."""

import contextlib
import http.client
import itertools
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HANGS_UP = 0
HOP = frozenset({"connection", "transfer-encoding", "keep-alive", "host", "content-length"})


class Sickly:
    """`codes`: what it answers as long as it is ill, in turn; `counts`: how often each was said."""

    def __init__(self, kubeconfig: str, folder: Path) -> None:
        self.codes: Iterator[int] | None = None
        self.counts: dict[int, int] = {}
        self._lines: set[http.client.HTTPSConnection] = set()
        config = json.loads(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        host, _, port = cluster["server"].removeprefix("https://").partition(":")
        self._real = (host, int(port or 443))
        self._context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._context.load_cert_chain(user["client-certificate"], user["client-key"])
        key, certificate = folder / "own.key", folder / "own.crt"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-keyout", key, "-out", certificate, "-days", "1", "-subj", "/CN=sickly",
             "-addext", "subjectAltName=IP:127.0.0.1"],
            check=True, capture_output=True,
        )  # fmt: skip
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.load_cert_chain(certificate, key)
        self._server.socket = own.wrap_socket(self._server.socket, server_side=True)
        self._server.daemon_threads = True
        cluster["server"] = f"https://127.0.0.1:{self._server.server_address[1]}"
        cluster["certificate-authority"] = str(certificate)
        self.kubeconfig = str(folder / "kubeconfig")
        Path(self.kubeconfig).write_text(json.dumps(config))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @contextlib.contextmanager
    def ill(self, *codes: int) -> Iterator[None]:
        self.codes = itertools.cycle(codes)
        for line in list(self._lines):  # watches are cut in the middle
            with contextlib.suppress(OSError, AttributeError):
                line.sock.shutdown(socket.SHUT_RDWR)
        try:
            yield
        finally:
            self.codes = None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(sickly) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the request's
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words: object) -> None: ...

            def pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                codes = sickly.codes
                if codes is not None:
                    return self.fail(next(codes))
                real = http.client.HTTPSConnection(*sickly._real, context=sickly._context)
                sickly._lines.add(real)
                with contextlib.closing(real), contextlib.suppress(OSError):
                    self.carry(real, body)
                sickly._lines.discard(real)

            def carry(self, real: http.client.HTTPSConnection, body: bytes) -> None:
                self.close_connection = True  # unless all went well
                wanted = {k: v for k, v in self.headers.items() if k.lower() not in HOP}
                real.request(self.command, self.path, body, wanted)
                with real.getresponse() as answer:
                    self.send_response(answer.status)
                    for key, value in answer.getheaders():
                        if key.lower() not in HOP:
                            self.send_header(key, value)
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    while piece := answer.read1(65536):
                        self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                        self.wfile.flush()
                if sickly.codes is None:
                    self.wfile.write(b"0\r\n\r\n")
                    self.close_connection = False

            def fail(self, code: int) -> None:
                sickly.counts[code] = sickly.counts.get(code, 0) + 1
                if code == HANGS_UP:
                    self.close_connection = True
                    return
                status = {"kind": "Status", "apiVersion": "v1", "status": "Failure",
                          "message": "it is ill", "code": code}  # fmt: skip
                said = json.dumps(status).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on  # noqa: N815

        return Handler
