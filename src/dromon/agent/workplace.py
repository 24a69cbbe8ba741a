"""A place with a directory that is the agent's alone: code laid out, logs read, outputs kept.

The agent's record is a directory of the container or pod and goes with it; what must outlive it is
brought elsewhere, and where that is, an engine's own place says. Whatever may take long is done in
a thread; the agent goes on meanwhile.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from dromon.agent import archives
from dromon.agent.carrier import Carrier
from dromon.agent.frames import Message
from dromon.agent.place import Place
from dromon.agent.plan import AgentPlan
from dromon.agent.record import Record
from dromon.errors import DromonError

PIECE = 256 * 1024  # of a log, in one message
READABLE = re.compile(r"[a-z0-9-]+\.[0-9]+\.log(\.index)?")


class Workplace(Place, ABC):
    """`request` names the framework and the outputs; `code` is the archive of the snapshot, which
    need not exist, and `digest` that of its content, where it is known; `root` is the directory
    that holds everything of this place."""

    def __init__(
        self,
        request: Mapping[str, Any],
        member: str,
        record: Record,
        root: str,
        code: str,
        digest: str = "",
    ) -> None:
        self._request = request
        self._member = member
        self._record = record
        self._code = code
        self._digest = digest
        self.is_over = False  # nothing is told any more
        self._wake: Callable[[], None] = lambda: None
        self._words: list[Message] = []
        self._laid_out: dict[int, str | None] = {}  # run -> None while under way, else trouble
        self._home_with: dict[int, bool] = {}
        self._kept: dict[tuple[Any, ...], Message] = {}  # attempt and paths -> what was told
        self._lock = threading.Lock()
        self._carrier = Carrier(root, member, self._say) if request["framework"] == "mpi" else None

    # ---- what an engine's place says ------------------------------------------------------------

    @abstractmethod
    def log_file(self, name: str) -> str:
        """Where `worker-0.1.log` lies."""

    def prepare(self, plan: AgentPlan) -> None:
        """Beyond the code. OSError and DromonError are the end of the run, with their words."""

    def carry_home(self, plan: AgentPlan) -> None:
        """What the run left, as far as it can be brought home: its end is told all the same."""

    @abstractmethod
    def put_output(self, path: str, file: BinaryIO) -> None:
        """Where it outlives this place. OSError and DromonError are told of this file alone."""

    # ---- what the agent asks --------------------------------------------------------------------

    def open(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def lay_out(self, plan: AgentPlan) -> bool:
        if plan.run not in self._laid_out:
            self._laid_out[plan.run] = None
            self._in_thread(lambda: self._lay_out(plan))
        trouble = self._laid_out[plan.run]
        if trouble:
            raise OSError(trouble)
        return trouble is not None

    def bring_home(self, plan: AgentPlan) -> bool:
        if plan.run not in self._home_with:
            self._home_with[plan.run] = False
            self._in_thread(lambda: self._bring_home(plan))
        return self._home_with[plan.run] and not self.is_over

    def hear(self, message: Message) -> None:
        op = message.get("op")
        if op == "read":
            self._say(self._read(message))
        elif op == "keep":
            attempt, paths = int(message["attempt"]), message.get("paths")
            if paths is None:
                found = files_under(self._record.work(attempt), self._request["outputs"])
                self._say({"op": "kept", "attempt": attempt, "found": found})
                return
            known = self._kept.get((attempt, *paths))
            if known:
                self._say(known)
            elif known is None:  # else a coordinator before this one asked, and it is under way
                self._kept[(attempt, *paths)] = {}
                self._in_thread(lambda: self._keep(attempt, paths))
        elif op == "carry" and self._carrier is not None:
            self._carrier.hear(message)

    def words(self) -> list[Message]:
        with self._lock:
            said, self._words = self._words, []
        return said

    # ---- parts ----------------------------------------------------------------------------------

    def _in_thread(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, daemon=True).start()

    def _say(self, message: Message) -> None:
        with self._lock:
            self._words.append(message)
        self._wake()

    def _lay_out(self, plan: AgentPlan) -> None:
        trouble = ""
        try:
            self._lay_out_code(self._record.work(plan.attempt))
            self.prepare(plan)
            if self._carrier is not None:
                self._carrier.open(self._record.world(plan.attempt))
        except (OSError, DromonError) as error:
            trouble = str(error) or type(error).__name__
        self._laid_out[plan.run] = trouble
        self._wake()

    def _lay_out_code(self, work: str) -> None:
        """A fresh copy for every attempt; what the last one wrote is gone, as on any engine."""
        if os.path.isdir(work):
            return
        for name in os.listdir(self._record.root):
            if name.startswith("work-"):
                shutil.rmtree(self._record.path(name), ignore_errors=True)
        if not os.path.exists(self._code):
            os.makedirs(work)
            return
        try:
            archives.unpack(self._code, work, self._digest)
        except archives.BROKEN as error:
            raise OSError(f"the code cannot be unpacked: {error}") from None

    def _bring_home(self, plan: AgentPlan) -> None:
        self.carry_home(plan)
        self._home_with[plan.run] = True
        self._wake()

    def _keep(self, attempt: int, paths: list[str]) -> None:
        """These of the last attempt, each file on its own: one that fails costs no other."""
        work = self._record.work(attempt)
        kept: list[dict[str, Any]] = []
        for path in paths:
            full = os.path.join(work, path)
            try:
                with open(full, "rb") as file:
                    self.put_output(path, file)
                kept.append({"path": path, "size": os.path.getsize(full)})
            except (OSError, DromonError) as error:
                kept.append({"path": path, "kept": False, "why": str(error)})
        answer: Message = {"op": "kept", "attempt": attempt, "outputs": kept}
        self._kept[(attempt, *paths)] = answer
        self._say(answer)

    def _read(self, message: Message) -> Message:
        """A piece of a log while it grows, for whoever follows it."""
        name, offset = str(message["name"]), int(message["offset"])
        answer: Message = {"op": "data", "id": message["id"], "offset": offset}
        try:
            if not READABLE.fullmatch(name):
                raise FileNotFoundError(name)
            with open(self.log_file(name), "rb") as file:
                file.seek(offset)
                data = file.read(min(PIECE, int(message.get("limit", PIECE))))
        except OSError:
            return {**answer, "data": "", "missing": True}
        return {**answer, "data": base64.b64encode(data).decode()}


def files_under(work: str, asked: list[str]) -> list[str]:
    """Every plain file under the asked paths, relative to the working directory."""
    found: list[str] = []
    for path in asked:
        full = os.path.join(work, path)
        if os.path.isfile(full):
            found.append(path)
        for folder, _, names in sorted(os.walk(full)):
            each = (os.path.join(folder, name) for name in sorted(names))
            found += [os.path.relpath(f, work) for f in each if os.path.isfile(f)]
    return found
