"""What a task sees of Dromon: `dromon.context()`. Outside a task everything has a sensible value,
so that a script runs unchanged by hand.

Imported by the user's own program: it must cost next to nothing and change nothing but, where
nobody else handles it, SIGTERM.
"""

import json
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional

if TYPE_CHECKING:
    from pathlib import Path


class Context:
    """This process's place in its job."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self._config: Optional[Dict[str, Any]] = None
        self._stopping = False
        self._listens = False
        self.job: str = variables.get("DROMON_JOB_ID", "")
        self.role: str = variables.get("DROMON_ROLE", "worker")
        self.index: int = int(variables.get("DROMON_INDEX", "0"))
        self.rank: int = int(variables.get("DROMON_RANK", "0"))
        self.world: int = int(variables.get("DROMON_WORLD_SIZE", "1"))  # how many members
        self.attempt: int = int(variables.get("DROMON_ATTEMPT", "1"))

    @property
    def config(self) -> Dict[str, Any]:
        """The job file's `config:`, overrides applied; {} outside a task."""
        if self._config is None:
            path = self._variables.get("DROMON_CONFIG")
            if path:
                with open(path, encoding="utf-8") as file:
                    self._config = json.load(file)
            else:
                self._config = {}
        return self._config if self._config is not None else {}

    @property
    def checkpoint_dir(self) -> "Path":
        """Survives restarts and preemption, and is the same for all members. Exists."""
        from pathlib import Path

        default = os.path.join(os.getcwd(), ".dromon", "checkpoints")
        path = Path(self._variables.get("DROMON_CHECKPOINT_DIR") or default)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def stopping(self) -> bool:
        """True once asked to stop: write a checkpoint and end, $DROMON_GRACE seconds are left.

        Whoever asks means to end by himself, so from the first call on SIGTERM no longer ends the
        process, unless somebody else handles it. A script that never asks is ended by it.
        """
        if not self._listens:
            self._listen()
        if not self._stopping:
            directory = self._variables.get("DROMON_MEMBER_DIR")
            self._stopping = bool(directory) and os.path.exists(
                os.path.join(str(directory), "stop")
            )
        return self._stopping

    def report(self, **metrics: Any) -> None:
        """Keep these figures with the job, with time and rank. Outside a task nothing happens."""
        directory = self._variables.get("DROMON_MEMBER_DIR")
        if not directory:
            return
        entry = {"time": time.time(), "rank": self.rank, **metrics}
        data = (json.dumps(entry, default=_plain) + "\n").encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        fd = os.open(os.path.join(directory, "metrics.jsonl"), flags, 0o600)
        try:
            os.write(fd, data)  # one write: lines of several processes never mix
        finally:
            os.close(fd)

    def checkpointed(self) -> None:
        """Say that the work so far is saved: whoever has saved last loses least, and is asked first
        to make room; an elastic gang grows right after it. Outside a task nothing happens.

        Without it the newest change in `checkpoint_dir` is taken for it.
        """
        directory = self._variables.get("DROMON_MEMBER_DIR")
        if directory:
            path = os.path.join(directory, "saved")
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            os.utime(path)

    def _listen(self) -> None:
        self._listens = True
        if not self._variables.get("DROMON_MEMBER_DIR"):
            return
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._asked)

    def _asked(self, number: int, frame: object) -> None:
        self._stopping = True


def _plain(value: Any) -> Any:
    """A figure of some framework (a tensor of one element, a NumPy number) as JSON has it."""
    for name in ("item", "tolist"):
        method = getattr(value, name, None)
        if callable(method):
            return method()
    return str(value)


_context: Optional[Context] = None


def context() -> Context:
    """The context of this process, always the same one."""
    global _context
    if _context is None:
        _context = Context(os.environ)
    return _context
