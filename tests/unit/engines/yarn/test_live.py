"""Asking a master that may be elsewhere, silent, or somebody else's."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dromon.coordinator.proof import HEADER, MARK, is_proven
from dromon.engines.yarn.live import Live, Silent

KEY, ID = b"key", "train-aaaaaa"


class Master:
    """Answers with `answers`: path -> (status, body), where the proof is right."""

    def __init__(self, mark=ID):
        self.answers = {}
        self.asked = []
        master = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                given = self.headers.get(HEADER, "")
                ours = is_proven(given, KEY, self.command, self.path, body, time.time())
                master.asked.append((self.command, self.path, body))
                status, text = master.answers.get(self.path, (404, b"")) if ours else (403, b"")
                self.send_response(status)
                if mark:
                    self.send_header(MARK, mark)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *words):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def masters():
    made = []

    def make(**how):
        made.append(Master(**how))
        return made[-1]

    yield make
    for one in made:
        one.close()


def nobody():
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    url = f"http://127.0.0.1:{server.server_port}/"
    server.server_close()
    return url


def test_the_status_is_asked_with_a_proof(masters):
    master = masters()
    master.answers["/status.json"] = (200, b'{"state": "running"}')
    assert Live(ID, [master.url], KEY).status() == {"state": "running"}
    with pytest.raises(Silent):
        Live(ID, [master.url], b"another key").status()


def test_a_piece_of_a_log_is_what_is_there_from_an_offset(masters):
    master = masters()
    master.answers["/logs/worker-0.1.log?offset=3"] = (200, b"456")
    live = Live(ID, [master.url], KEY)
    assert live.piece("worker-0.1.log", 3) == b"456"
    assert live.piece("worker-0.2.log", 0) is None


def test_a_stop_says_who_and_how_long(masters):
    master = masters()
    master.answers["/stop"] = (200, b"{}")
    Live(ID, [master.url], KEY).stop("al", 2.5)
    method, path, body = master.asked[0]
    assert (method, path, json.loads(body)) == ("POST", "/stop", {"by": "al", "grace": 2.5})


def test_where_it_cannot_be_reached_yarns_proxy_is_asked(masters):
    proxy = masters()
    proxy.answers["/status.json"] = (200, b"{}")
    assert Live(ID, [nobody(), proxy.url], KEY).status() == {}


def test_an_answer_that_is_not_the_jobs_masters_is_none(masters):
    yarn, other = masters(mark=""), masters(mark="other-bbbbbb")
    for one in (yarn, other):
        one.answers["/status.json"] = (200, b'{"state": "not ours"}')
    with pytest.raises(Silent, match="it is not there"):
        Live(ID, [yarn.url, other.url], KEY).status()


def test_an_error_page_of_yarns_is_silence_and_not_a_missing_log(masters):
    yarn = masters(mark="")
    with pytest.raises(Silent):
        Live(ID, [yarn.url], KEY).piece("worker-0.1.log", 0)


@pytest.mark.parametrize("urls", [[], [""], ["N/A"]])
def test_a_master_without_an_address_is_silent(urls):
    with pytest.raises(Silent):
        Live(ID, urls, KEY).status()


def test_a_master_that_is_gone_is_silent():
    live = Live(ID, [nobody()], KEY)
    for ask in (live.status, lambda: live.piece("x", 0), lambda: live.stop("al", None)):
        with pytest.raises(Silent):
            ask()
