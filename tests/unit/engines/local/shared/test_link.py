"""Questions and orders on one line: nothing that is said is lost, however it comes."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dromon.agent.frames import Message, Unpacker, pack
from dromon.engines.local.shared.link import Link, question
from dromon.engines.local.shared.place import ArbiterAway, Place
from dromon.errors import EngineError, Refused

Said = Callable[[Message], list[Message] | None]


class Arbiter:
    """Answers one question on each connection with `says`, and then hangs up."""

    def __init__(self, says: Said) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind("arbiter.sock")
        self._socket.listen()
        self._says = says
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            peer, _ = self._socket.accept()
            with peer:
                unpacker = Unpacker()
                while not (found := unpacker.feed(peer.recv(65536))):
                    pass
                peer.sendall(b"".join(map(pack, self._says(found[0]) or [])))


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return Place(".", os.getuid())


def test_orders_before_and_after_an_answer_are_all_delivered(at: Place):
    def says(asked: Message) -> list[Message]:
        return [{"op": "first"}, {"ok": True, "n": asked["n"], "x": 1}, {"op": "last"}]

    Arbiter(says)
    heard: list[Message] = []
    link = Link(at, heard.append)
    assert link.ask("why", id="x")["x"] == 1
    assert heard == [], "not inside the question"
    link.deliver()
    assert [message["op"] for message in heard] == ["first", "last"]
    link.deliver()
    assert len(heard) == 2
    with pytest.raises(ArbiterAway, match="gone"):
        link.readable()
    link.close()


def test_an_error_it_answers_with_is_raised_as_it_is(at: Place):
    Arbiter(lambda asked: [{"ok": False, "n": asked["n"], **Refused("no", hint="ask").to_json()}])
    with pytest.raises(Refused, match="no") as raised:
        question(at, "admit")
    assert raised.value.hint == "ask"


def test_one_that_hangs_up_or_is_not_there_is_away(at: Place):
    with pytest.raises(EngineError):
        question(at, "status")
    Arbiter(lambda asked: None)
    with pytest.raises(ArbiterAway, match="gone"):
        question(at, "status")
