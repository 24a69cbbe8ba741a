"""Logs that ended containers left on their nodes, while the application runs. LIGHT.

A container's log grows no more once it is over, and its node keeps it until the application is:
each is fetched once, to a file of ours, when somebody first asks for it.
"""

from __future__ import annotations

import base64
import http.client
import os
import re
import threading
import time
from collections.abc import Callable

from dromon.agent.frames import Message
from dromon.agent.workplace import PIECE, READABLE

PATIENCE = 10.0  # seconds for a node to answer
AGAIN = 30.0  # seconds after which one that did not is asked again
# What a NodeManager says before the bytes of a log.
_HEAD = re.compile(rb"LogLength: ?([0-9]+)\n(?:[^\n]*\n)*?LogContents:\n")
_LONGEST_HEAD = 4096


class LeftLogs:
    """``user``: as whom nodes without security are asked. Answers come from other threads."""

    def __init__(self, user: str, folder: str = "left") -> None:
        self._user = user
        self._folder = folder
        self._failed: dict[str, float] = {}
        self._lock = threading.Lock()  # one is fetched at a time

    def read(
        self,
        name: str,
        container: str,
        node: str,
        offset: int,
        answer: Callable[[Message | None], None],
    ) -> None:
        """``node``: host and port of its web page."""
        if not READABLE.fullmatch(name) or not node:
            return answer(None)

        def work() -> None:
            try:
                with self._lock:
                    path = self._fetched(name, container, node)
                with open(path, "rb") as file:
                    file.seek(offset)
                    found = base64.b64encode(file.read(PIECE)).decode()
            except (OSError, http.client.HTTPException, ValueError):
                return answer(None)
            answer({"op": "data", "offset": offset, "data": found})

        threading.Thread(target=work, name="left", daemon=True).start()

    def _fetched(self, name: str, container: str, node: str) -> str:
        path = os.path.join(self._folder, name)
        if os.path.exists(path):
            return path
        if time.monotonic() < self._failed.get(path, 0.0) + AGAIN:
            raise OSError("its node did not answer a moment ago")
        os.makedirs(self._folder, exist_ok=True)
        try:
            self._fetch(f"{path}.new", name, container, node)
        except (OSError, http.client.HTTPException, ValueError):
            self._failed[path] = time.monotonic()
            raise
        os.replace(f"{path}.new", path)
        return path

    def _fetch(self, path: str, name: str, container: str, node: str) -> None:
        line = http.client.HTTPConnection(node, timeout=PATIENCE)
        try:
            place = f"/ws/v1/node/containerlogs/{container}/{name}?user.name={self._user}"
            line.request("GET", place)
            answer = line.getresponse()
            start = answer.read(_LONGEST_HEAD)
            head = _HEAD.search(start)
            if answer.status != 200 or head is None:
                raise OSError(f"{node} answers {answer.status}")
            left = int(head[1])
            with open(path, "wb") as out:
                out.write(start[head.end() :][:left])
                while out.tell() < left:
                    data = answer.read(min(1 << 20, left - out.tell()))
                    if not data:
                        raise OSError(f"{node} gave less than it has")
                    out.write(data)
        finally:
            line.close()
