"""Carries what MPI's launcher hands to another place, from container to container.

On one machine `frameworks.mpi` hands a command over through a named pipe of a directory that all
members share. In containers each member has that directory to itself: here stand the pipes of the
places elsewhere, what is written into them is taken to its place through the master, and run
there; the exit code comes back the same way.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Callable

from dromon.agent.frames import Message

LOOK = 0.05  # seconds between two looks for a pipe that is not there yet


class Carrier:
    """`say` sends a message to the master, which passes it on to the member in `to`."""

    def __init__(self, root: str, member: str, say: Callable[[Message], None]) -> None:
        self._root = root  # of this container: paths below it mean another one's elsewhere
        self._member = member
        self._say = say
        self._waiting: dict[int, str] = {}  # what was handed over -> the pipe its code goes into
        self._count = 0
        self._lock = threading.Lock()
        self._worlds: set[str] = set()

    def open(self, directory: str) -> None:
        """Rank 0 of this attempt may be here: once its host file is there, open the pipes."""
        if directory in self._worlds:
            return
        self._worlds.add(directory)
        self._in_thread(lambda: self._open(directory))

    def hear(self, message: Message) -> None:
        op = message["op"]
        if op == "carry":
            self._in_thread(lambda: self._deliver(message))
        elif op == "carried":
            with self._lock:
                end = self._waiting.pop(int(message["id"]), None)
            if end is not None:
                self._in_thread(lambda: _write_line(end, str(message["code"])))

    # ---- where it is handed over ----------------------------------------------------------------

    def _open(self, directory: str) -> None:
        hosts = os.path.join(directory, "hostfile")
        while not os.path.exists(hosts):
            time.sleep(LOOK)
        with open(hosts, encoding="utf-8") as file:
            places = [line.split()[0] for line in file if line.strip()]
        for place in places:
            if place != self._member:
                self._in_thread(lambda place=place: self._collect(directory, place))  # type: ignore[misc]

    def _collect(self, directory: str, place: str) -> None:
        pipe = os.path.join(directory, place)
        os.mkfifo(f"{pipe}.new", 0o600)
        # Open both ways, before anybody can see it: no writer waits, no line is lost.
        fd = os.open(f"{pipe}.new", os.O_RDWR)
        os.rename(f"{pipe}.new", pipe)
        with os.fdopen(fd, encoding="utf-8") as lines:
            for line in lines:
                script = line.strip()
                if script == "end":
                    self._say({"op": "carry", "to": place, "from": self._member, "id": 0,
                               "directory": directory, "script": ""})  # fmt: skip
                    return
                with open(script, encoding="utf-8") as file:
                    text = file.read()
                with self._lock:
                    self._count += 1
                    number = self._count
                    self._waiting[number] = f"{script}.end"
                self._say(
                    {
                        "op": "carry", "to": place, "from": self._member, "id": number,
                        "directory": directory, "script": text, "path": script,
                        "root": self._root,
                    }
                )  # fmt: skip

    # ---- where it is run ------------------------------------------------------------------------

    def _deliver(self, message: Message) -> None:
        """As rsh would have written it here."""
        theirs, attempt = str(message["directory"]), str(message["directory"]).rpartition("/")[2]
        directory = os.path.join(self._root, "record", "world", attempt)
        pipe = os.path.join(directory, self._member)
        while not os.path.exists(pipe):
            time.sleep(LOOK)
        if not message["script"]:
            _write_line(pipe, "end")
            return
        script = os.path.join(directory, f"{self._member}.{message['id']}")
        text = str(message["script"]).replace(str(message["path"]), script)
        text = text.replace(theirs, directory).replace(str(message["root"]), self._root)
        os.mkfifo(f"{script}.end", 0o600)
        with open(script, "w", encoding="utf-8") as file:
            file.write(text)
        fd = os.open(f"{script}.end", os.O_RDWR)
        _write_line(pipe, script)
        with os.fdopen(fd, encoding="utf-8") as codes:
            code = codes.readline().strip()
        for path in (script, f"{script}.end"):
            os.unlink(path)
        answer = {"op": "carried", "to": message["from"], "from": self._member}
        self._say({**answer, "id": message["id"], "code": code})

    def _in_thread(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()


def _write_line(pipe: str, text: str) -> None:
    fd = os.open(pipe, os.O_RDWR)  # both ways: never waits for a reader
    try:
        os.write(fd, f"{text}\n".encode())
    finally:
        os.close(fd)
