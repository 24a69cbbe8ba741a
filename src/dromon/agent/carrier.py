"""Carries what MPI's launcher hands to another place, from container to container.

On one machine `frameworks.mpi` hands a command over through a named pipe of a directory that all
members share. In containers each member has that directory to itself: here stand the pipes of the
places elsewhere, what is written into them is taken to its place through the coordinator, and run
there; the exit code comes back the same way.

The line to the coordinator may break, and another one take over: what is said is said again until
it has been heard, and what is heard twice is done once.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Callable

from dromon.agent.frames import Message

LOOK = 0.05  # seconds between two looks for a pipe that is not there yet
AGAIN = 2.0  # seconds until what nobody has heard is said again


class Carrier:
    """`say` sends a message to the coordinator, which passes it on to the member in `to`."""

    def __init__(
        self, root: str, member: str, say: Callable[[Message], None], again: float = AGAIN
    ) -> None:
        self._root = root  # of this container: paths below it mean another one's elsewhere
        self._member = member
        self._name = f"{member}.{os.urandom(8).hex()}"  # another one when a container follows it
        self._say = say
        self._again = again
        self._lock = threading.Lock()
        self._count = 0
        self._attempt = -1  # the one this place is ready for
        self._unheard: dict[int, Message] = {}
        self._heard: set[tuple[str, int]] = set()
        self._waiting: dict[int, str] = {}  # what was handed over -> the pipe its code goes into

    def open(self, directory: str) -> None:
        """Rank 0 of this attempt may be here: once its host file is there, open the pipes."""
        attempt = _attempt_of(directory)
        with self._lock:
            if attempt <= self._attempt:
                return
            self._attempt = attempt
            self._unheard.clear()
            self._waiting.clear()
        self._in_thread(lambda: self._open(directory))

    def hear(self, message: Message) -> None:
        what, number = message["what"], int(message["number"])
        if what == "heard":
            with self._lock:
                if message["name"] == self._name:
                    self._unheard.pop(number, None)
            return
        heard = {"op": "carry", "what": "heard", "name": message["name"], "number": number}
        self._say({**heard, "to": message["from"], "from": self._member})
        with self._lock:
            if (message["name"], number) in self._heard:
                return
            self._heard.add((message["name"], number))
            end = self._waiting.pop(int(message["of"]), None) if what == "code" else None
        if what != "code":
            self._in_thread(lambda: self._deliver(message))
        elif end is not None:
            _write_line(end, str(message["code"]))

    # ---- words ----------------------------------------------------------------------------------

    def _tell(self, to: str, what: str, attempt: int, code_into: str = "", **more: object) -> None:
        with self._lock:
            if attempt != self._attempt:
                return
            self._count += 1
            number = self._count
            if code_into:
                self._waiting[number] = code_into
            is_first = not self._unheard
            self._unheard[number] = message = {
                "op": "carry", "to": to, "from": self._member, "name": self._name,
                "number": number, "what": what, "attempt": attempt, **more,
            }  # fmt: skip
        self._say(message)
        if is_first:
            self._in_thread(self._insist)

    def _insist(self) -> None:
        """Until all has been heard."""
        while True:
            time.sleep(self._again)
            with self._lock:
                left = list(self._unheard.values())
            if not left:
                return
            for message in left:
                self._say(message)

    # ---- where it is handed over ----------------------------------------------------------------

    def _open(self, directory: str) -> None:
        hosts, own = os.path.join(directory, "hostfile"), os.path.join(directory, self._member)
        while not os.path.exists(hosts):
            if os.path.exists(own) or self._is_over(directory):
                return  # one of the others
            time.sleep(LOOK)
        with open(hosts, encoding="utf-8") as file:
            places = [line.split()[0] for line in file if line.strip()]
        for place in places:
            if place != self._member:
                self._in_thread(lambda place=place: self._collect(directory, place))  # type: ignore[misc]

    def _collect(self, directory: str, place: str) -> None:
        pipe, attempt = os.path.join(directory, place), _attempt_of(directory)
        os.mkfifo(f"{pipe}.new", 0o600)
        # Open both ways, before anybody can see it: no writer waits, no line is lost.
        fd = os.open(f"{pipe}.new", os.O_RDWR)
        os.rename(f"{pipe}.new", pipe)
        with os.fdopen(fd, encoding="utf-8") as lines:
            # A launcher that has ended before the pipe was there wrote nothing into it.
            ended = os.path.exists(os.path.join(directory, "ended"))
            while not ended:
                script = lines.readline().strip()
                ended = script == "end"
                if not ended:
                    with open(script, encoding="utf-8") as file:
                        text = file.read()
                    self._tell(
                        place, "run", attempt, f"{script}.end", script=text, path=script,
                        directory=directory, root=self._root, links=self._links(),
                    )  # fmt: skip
        self._tell(place, "end", attempt)

    # ---- where it is run ------------------------------------------------------------------------

    def _deliver(self, message: Message) -> None:
        """As rsh would have written it here."""
        attempt = int(message["attempt"])
        directory = os.path.join(self._root, "record", "world", str(attempt))
        pipe = os.path.join(directory, self._member)
        while not os.path.exists(pipe):
            if self._is_over(directory):
                return
            time.sleep(LOOK)
        if message["what"] == "end":
            _write_line(pipe, "end")
            return
        script = os.path.join(directory, f"{self._member}.{message['number']}")
        text = str(message["script"]).replace(str(message["path"]), script)
        text = text.replace(str(message["directory"]), directory)
        for name, real in message["links"].items():
            text = text.replace(str(real), os.path.join(self._root, name))
        text = text.replace(str(message["root"]), self._root)
        os.mkfifo(f"{script}.end", 0o600)
        with open(script, "w", encoding="utf-8") as file:
            file.write(text)
        fd = os.open(f"{script}.end", os.O_RDWR)
        _write_line(pipe, script)
        with os.fdopen(fd, encoding="utf-8") as codes:
            code = codes.readline().strip()
        for path in (script, f"{script}.end"):
            os.unlink(path)
        self._tell(str(message["from"]), "code", attempt, of=message["number"], code=code)

    def _links(self) -> dict[str, str]:
        """What YARN keeps in its cache lies elsewhere on every node; programs look through links
        to find what was installed beside them."""
        found = [entry for entry in os.scandir(self._root) if entry.is_symlink()]
        return {entry.name: os.path.realpath(entry.path) for entry in found}

    def _is_over(self, directory: str) -> bool:
        return _attempt_of(directory) < self._attempt

    def _in_thread(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()


def _attempt_of(directory: str) -> int:
    return int(directory.rpartition("/")[2])


def _write_line(pipe: str, text: str) -> None:
    fd = os.open(pipe, os.O_RDWR)  # both ways: never waits for a reader
    try:
        os.write(fd, f"{text}\n".encode())
    finally:
        os.close(fd)
