"""The coordinator's door for people and clients: status, live logs, stop. Behind a proxy, too.

    GET  /                          a page
    GET  /status.json               how the job stands
    GET  /logs/worker-0.1.log?offset=N      a piece of a log while it grows (`.log.index` as well)
    GET  /tensorboard/              TensorBoard, where the job has one
    POST /stop                      {"by", "grace"}

Clients prove that they know the job's key: `Dromon-Proof: <seconds>:<HMAC of method, path, body>`.
Without it only the cluster's own proxy is answered, where it decides who may look, and it may only
look.
"""

from __future__ import annotations

import base64
import html
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs, urlsplit

from dromon.agent.frames import Message
from dromon.coordinator.proof import HEADER, MARK, is_proven
from dromon.lifecycle import events as ev

if TYPE_CHECKING:
    from dromon.coordinator.deciding import Deciding

ANSWER = 20.0  # seconds an agent gets to send a piece of its log
LONGEST_BODY = 64 * 1024


class Board(Protocol):
    """TensorBoard, wherever it listens."""

    def ask(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]: ...


class Web:
    def __init__(
        self,
        deciding: Deciding,
        key: bytes,
        proxies: list[str],
        board: Board | None = None,
        *,
        port: int = 0,
        patience: float = ANSWER,
    ) -> None:
        self.deciding = deciding
        self._patience = patience
        self.board = board
        self.key = key
        self.proxies = _addresses(proxies)
        self._server = _Server(("", port), _handler(self))
        self.port = int(self._server.server_address[1])

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, name="web", daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()

    # ---- answers --------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Asked of the deciding thread, so that it is of one moment."""
        return dict(self._asked(lambda done: done(self.deciding.status())))

    def log(self, name: str, offset: int) -> bytes | None:
        """None: nobody is there who could read it."""
        member = name.partition(".")[0]
        answer = self._asked(lambda done: self.deciding.read_log(member, name, offset, done))
        if answer is None or answer.get("missing"):
            return None
        return base64.b64decode(answer["data"])

    def request_stop(self, by: str, grace: float | None) -> None:
        def stop(done: Callable[[Any], None]) -> None:
            self.deciding.happen(ev.StopRequested(by, grace))
            self.deciding.after_keeping(lambda: done({}))

        self._asked(stop)

    def _asked(self, question: Callable[[Callable[[Any], None]], None]) -> Any:
        answered = threading.Event()
        box: list[Message | None] = []

        def done(answer: Message | None) -> None:
            box.append(answer)
            answered.set()

        self.deciding.post(lambda: question(done))
        if not answered.wait(self._patience):
            raise TimeoutError("the coordinator did not answer")
        return box[0]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def _addresses(hosts: list[str]) -> set[str]:
    found: set[str] = set()
    for host in hosts:
        try:
            found |= {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
        except OSError:
            continue
    return found


def _handler(web: Web) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_GET(self) -> None:
            if not self._is_allowed(b"", may_look=True):
                return
            if self.path.startswith("/tensorboard") and web.board is not None:
                status, headers, body = web.board.ask(self.path, dict(self.headers.items()))
                self._send(status, headers.pop("Content-Type", "text/plain"), body, headers)
            else:
                self._answer(self._get)

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length") or "0"
            if not length.isdecimal() or int(length) > LONGEST_BODY:
                self.close_connection = True  # what follows would be taken for a request
                self._send(400, "text/plain", b"not understood: its length\n")
                return
            body = self.rfile.read(int(length))
            if self._is_allowed(body, may_look=False):
                self._answer(lambda: self._post(body))

        def log_message(self, format: str, *words: Any) -> None:
            pass  # the container's log is for what goes wrong

        def _is_allowed(self, body: bytes, may_look: bool) -> bool:
            given = self.headers.get(HEADER, "")
            if is_proven(given, web.key, self.command, self.path, body, time.time()):
                return True
            if may_look and self.client_address[0] in web.proxies:
                return True
            self._send(403, "text/plain", b"Through the cluster's own pages, please.\n")
            return False

        def _answer(self, make: Callable[[], tuple[int, str, bytes]]) -> None:
            try:
                self._send(*make())
            except TimeoutError as error:
                self._send(504, "text/plain", f"{error}\n".encode())
            except (ValueError, KeyError, TypeError) as error:
                self._send(400, "text/plain", f"not understood: {error}\n".encode())

        def _get(self) -> tuple[int, str, bytes]:
            parts = urlsplit(self.path)
            if parts.path == "/status.json":
                return 200, "application/json", json.dumps(web.status()).encode()
            if parts.path.startswith("/logs/"):
                offset = int(parse_qs(parts.query).get("offset", ["0"])[0])
                data = web.log(parts.path[len("/logs/") :], max(0, offset))
                if data is None:
                    return 404, "text/plain", b"there is no such log here now\n"
                return 200, "text/plain; charset=utf-8", data
            if parts.path in ("", "/"):
                return 200, "text/html; charset=utf-8", page(web.status()).encode()
            return 404, "text/plain", b"there is no such page\n"

        def _post(self, body: bytes) -> tuple[int, str, bytes]:
            if urlsplit(self.path).path != "/stop":
                return 404, "text/plain", b"there is no such page\n"
            asked = json.loads(body)
            if not isinstance(asked, dict):
                raise ValueError("an object is expected")
            grace = asked.get("grace")
            web.request_stop(str(asked.get("by", "")), None if grace is None else float(grace))
            return 200, "application/json", b"{}"

        def _send(
            self, code: int, kind: str, body: bytes, more: Mapping[str, str] | None = None
        ) -> None:
            try:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "no-store")
                self.send_header(MARK, web.deciding.gang.plan.job)
                for name, value in (more or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # whoever asked has left
                self.close_connection = True

    return Handler


STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#222}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem}
tr+tr{border-top:1px solid #ddd}th{font-weight:600;color:#555}.state{font-weight:600}
pre{background:#f5f5f5;padding:.8rem;overflow:auto}
@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}pre{background:#222}
tr+tr{border-color:#333}th{color:#aaa}a{color:#8ab4f8}}
"""


def page(status: Mapping[str, Any]) -> str:
    """One page without scripts: it looks after itself every five seconds while the job runs."""
    e = html.escape
    rows = "".join(
        f"<tr><td>{e(m['member'])}<td>{'' if m['rank'] is None else m['rank']}<td>{e(m['state'])}"
        f"<td>{e(m['node'] or m['host'])}<td>{m['memory'] >> 20} MiB"
        f"<td><a href='logs/{e(m['member'])}.{m['run']}.log'>log</a></tr>"
        for m in status["members"]
    )
    verdict = status["verdict"] or {}
    words = [verdict.get("message", ""), status["trouble"]]
    missing = {role: n for role, n in status["missing"].items() if n}
    if missing and not verdict:
        asked = ", ".join(f"{n} {role}" for role, n in missing.items())
        words.append(f"Waits for containers: {asked}; has {status['held']}.")
    said = "".join(f"<p>{e(text)}</p>" for text in words if text)
    lines = "\n".join(verdict.get("last_lines", ()))
    tail = f"<pre>{e(lines)}</pre>" if lines else ""
    board = ", <a href='tensorboard/'>TensorBoard</a>" if status["tensorboard"] else ""
    again = "" if status["ended"] else "<meta http-equiv=refresh content=5>"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8>{again}<title>{e(status['id'])}</title>"
        f"<style>{STYLE}</style><h1>{e(status['id'])}</h1>"
        f"<p><span class=state>{e(status['state'])}</span>, attempt {status['attempt']}"
        f"{board}</p>{said}"
        f"<table><tr><th>member<th>rank<th>state<th>node<th>memory<th></tr>{rows}</table>{tail}"
    )
