"""The claim: the one file that decides which agent may run a run. At most one ever does.

It names its maker so well (pid, start time, boot) that anybody can tell whether that very process
still lives, after any number of restarts of the daemon or of the machine.
"""

import json
import os
from typing import NamedTuple, Optional

from dromon.agent.files import read_small, write_small
from dromon.agent.process import start_ticks


class Claim(NamedTuple):
    pid: int
    start_ticks: int
    boot_id: str

    @property
    def is_alive(self) -> bool:
        """Whether the agent still holds this very run. A released claim is held by nobody."""
        return (
            self.start_ticks > 0
            and self.boot_id == boot_id()
            and start_ticks(self.pid) == self.start_ticks
        )


_boot = ""


def boot_id() -> str:
    global _boot
    if not _boot:
        _boot = read_small("/proc/sys/kernel/random/boot_id").decode().strip()
    return _boot


def take(directory: str) -> bool:
    """Claim the run in `directory` for this process; False when somebody has it already.

    The file appears with its content or not at all, so nobody can read half a claim.
    """
    pid = os.getpid()
    draft = os.path.join(directory, f"claim.{pid}")
    write_small(draft, _text(start_ticks(pid)))
    try:
        os.link(draft, os.path.join(directory, "claim"))
        return True
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)


def release(directory: str) -> None:
    """The run is over and recorded, but this process will live on for another one.

    The claim stays, so nobody else can take the run; it no longer matches any process, so nobody
    takes what this process does next for that run. Written in place, in one write.
    """
    fd = os.open(os.path.join(directory, "claim"), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(fd, _text(0), 0)
    finally:
        os.close(fd)


def _text(ticks: int) -> bytes:
    text = json.dumps({"pid": os.getpid(), "start_ticks": ticks, "boot_id": boot_id()})
    return text.encode().ljust(128)


def read(directory: str) -> Optional[Claim]:
    """Who has claimed the run in `directory`; None when nobody did."""
    try:
        data = json.loads(read_small(os.path.join(directory, "claim")))
        return Claim(int(data["pid"]), int(data["start_ticks"]), str(data["boot_id"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
