"""HTTP/1.1 on one connection, whole or byte by byte."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dromon.engines.kubernetes.wire import BadAnswer, Cut, Wire

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A:  b \r\n\r\n"
    b"3\r\nabc\r\n5;x=y\r\nde\r\nf\r\n0\r\nTrailer: x\r\n\r\n"
)
LENGTH = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\nuntil the end"
OLD = b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
AHEAD = b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH


@contextmanager
def answering(text: bytes, step: int = 0) -> Iterator[Wire]:
    """A connection on which this comes, in writes of `step` bytes."""
    near, far = socket.socketpair()

    def write() -> None:
        with far:
            for at in range(0, len(text), step or len(text) or 1):
                far.sendall(text[at : at + (step or len(text))])

    thread = threading.Thread(target=write)
    thread.start()
    near.settimeout(10)
    wire = Wire(near)
    yield wire
    thread.join()
    wire.close()


@pytest.mark.parametrize("step", [0, 1, 3])
@pytest.mark.parametrize(
    ("text", "status", "body", "reusable"),
    [
        (CHUNKED, 200, b"abcde\r\nf", True),
        (LENGTH, 404, b"none", True),
        (EMPTY, 204, b"", True),
        (ENDLESS, 200, b"until the end", False),
        (OLD, 200, b"x", False),
        (LAST, 200, b"x", False),
        (AHEAD, 404, b"none", True),
    ],
)
def test_answers_are_read_as_they_trickle_in(text, status, body, reusable, step):
    with answering(text, step) as wire:
        head = wire.head()
        assert head.status == status
        assert b"".join(wire.body(head)) == body
        assert wire.reusable is reusable


def test_headers_are_found_in_small_letters():
    with answering(CHUNKED) as wire:
        assert wire.head().headers == {"transfer-encoding": "chunked", "x-a": "b"}


@pytest.mark.parametrize("end", range(1, len(CHUNKED)))
def test_whatever_is_cut_is_never_taken_for_whole(end):
    with answering(CHUNKED[:end]) as wire, pytest.raises(Cut):
        list(wire.body(wire.head()))


@pytest.mark.parametrize(
    "text",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 many OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: few\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        b"x" * 300_000,
    ],
)
def test_what_is_not_http_is_said_so(text):
    with answering(text) as wire, pytest.raises(BadAnswer):
        list(wire.body(wire.head()))


def test_silence_is_told_from_half_an_answer():
    with answering(b"") as wire, pytest.raises(Cut) as caught:
        wire.head()
    assert caught.value.silent
    with answering(b"HTTP/1.1 2") as wire, pytest.raises(Cut) as caught:
        wire.head()
    assert not caught.value.silent


def test_what_is_asked_is_what_is_sent():
    near, far = socket.socketpair()
    with far:
        wire = Wire(near)
        wire.send("GET", "/a", [("Host", "h"), ("X", "1"), ("X", "2")], b"")
        assert far.recv(1000) == b"GET /a HTTP/1.1\r\nHost: h\r\nX: 1\r\nX: 2\r\n\r\n"
        wire.send("POST", "/a", [], b"body")
        assert far.recv(1000) == b"POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody"
        assert not wire.is_stale
        far.sendall(LENGTH)
        assert wire.is_stale
        wire.close()


def test_an_answer_that_came_before_all_was_sent_is_heard():
    near, far = socket.socketpair()
    far.sendall(LENGTH)
    far.shutdown(socket.SHUT_RD)
    wire = Wire(near)
    wire.send("POST", "/a", [], b"x" * 10_000_000)
    head = wire.head()
    assert (head.status, b"".join(wire.body(head))) == (404, b"none")
    far.close()
    wire.close()


def test_hanging_up_wakes_whoever_waits():
    near, far = socket.socketpair()
    wire = Wire(near)
    threading.Timer(0.05, wire.hang_up).start()
    with far, pytest.raises(Cut):
        wire.head()
    wire.close()
