"""A daemon's door for other users: the logs of jobs whose file shares them, and nothing else.

It lies beside the arbiter's socket. Both sides know from the kernel who the other is, so what a job
prints passes no third hand. Everything here happens in threads of its own: whoever reads slowly
holds up nobody.
"""

import logging
import os
import socket
import threading
from collections.abc import Iterator
from typing import Any

from dromon.agent.frames import FrameError, Message, Unpacker, pack
from dromon.engines.base import LogLine
from dromon.engines.local.client import Talk, peer_uid
from dromon.engines.local.engine import LocalEngine
from dromon.engines.local.shared import place
from dromon.engines.local.shared.people import Person, person
from dromon.errors import DromonError, Refused

log = logging.getLogger("dromon.door")
LARGEST = 4096  # bytes of a question
MOST = 16  # readers at once
PATIENCE = 60.0  # seconds a reader may take to read on
BATCH = 500  # lines in one message


class Door:
    def __init__(self, at: place.Place, home: str) -> None:
        self.path = at.path(place.DOORS, f"{os.getuid()}-{os.urandom(6).hex()}.sock")
        self._engine = LocalEngine(home)
        self._readers = threading.Semaphore(MOST)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def open(self) -> None:
        self._socket.bind(self.path)
        os.chmod(self.path, 0o666)
        self._socket.listen(64)
        threading.Thread(target=self._serve, name="door", daemon=True).start()

    def close(self) -> None:
        self._socket.close()
        try:
            os.unlink(self.path)
        except OSError:
            pass

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return  # closed
            if not self._readers.acquire(blocking=False):
                peer.close()
                continue
            threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _answer(self, peer: socket.socket) -> None:
        try:
            with peer:
                peer.settimeout(PATIENCE)
                who = person(peer_uid(peer))
                try:
                    for message in self._said(who, _question(peer)):
                        peer.sendall(pack({"ok": True, **message}))
                except DromonError as error:
                    peer.sendall(pack({"ok": False, **error.to_json()}))
        except (OSError, FrameError, KeyError, TypeError, ValueError) as error:
            log.info("a reader left: %r", error)
        finally:
            self._readers.release()

    def _said(self, who: Person, asked: Message) -> Iterator[Message]:
        id = str(asked["id"])
        request = self._engine.client.ask("request", ref=id)["request"]
        if not is_shown(request["job"].get("acls") or {}, who):
            raise Refused(f"{id} is not shared with {who.name}", hint=HINT)
        log.info("%s reads the logs of %s", who.name, id)
        tail = asked.get("tail")
        options: dict[str, Any] = {"follow": bool(asked.get("follow")), "every_run": True}
        lines: list[list[Any]] = []
        for line in self._engine.lines(id, tail=None if tail is None else int(tail), **options):
            lines.append(list(line))
            if len(lines) >= BATCH or options["follow"]:
                yield {"lines": lines}
                lines = []
        yield {"lines": lines, "done": True}


HINT = "Its user can: `acls: {view: [NAME]}` in the job file, of a user or a group."


def is_shown(acls: Message, who: Person) -> bool:
    names = {str(name) for name in acls.get("view", ())}
    return who.uid in (0, os.getuid()) or who.name in names or bool(who.groups & names)


def _question(peer: socket.socket) -> Message:
    unpacker = Unpacker(LARGEST)
    while True:
        data = peer.recv(LARGEST)
        if not data:
            raise FrameError("it said nothing")
        if found := unpacker.feed(data):
            return found[0]


def read(path: str, uid: int, id: str, *, follow: bool, tail: int | None) -> Iterator[LogLine]:
    """The other side: what that user's daemon shows us."""
    with Talk(place.connect(path, uid)) as talk:
        talk.send({"id": id, "follow": follow, "tail": tail})
        while True:
            answer = talk.answer()
            for line in answer["lines"]:
                yield LogLine(*line)
            if answer.get("done"):
                return
