"""The claim: the one file that decides which agent may run a run. At most one ever does.

It names its maker so well (pid, start time, boot) that anybody can tell whether that very process
still lives, after any number of restarts of the daemon or of the machine. It stays when the run
is over: who has had a run has it for ever. An agent is sent to another run only once its last
exit is on disk, so the maker of a run that has no exit record is at that run.
"""

import json
import os
from typing import NamedTuple, Optional, Tuple

from dromon.agent.files import read_small
from dromon.agent.process import start_ticks


class Claim(NamedTuple):
    pid: int
    start_ticks: int
    boot_id: str

    @property
    def is_alive(self) -> bool:
        """Whether the process that made it still lives."""
        return self.boot_id == boot_id() and start_ticks(self.pid) == self.start_ticks


_boot = ""
_own: Tuple[int, int] = (0, -1)  # of which process this memory is, and its claim, open


def boot_id() -> str:
    global _boot
    if not _boot:
        _boot = read_small("/proc/sys/kernel/random/boot_id").decode().strip()
    return _boot


def take(directory: str) -> bool:
    """Claim the run in `directory` for this process; False when somebody has it already.

    The file appears with its content or not at all, so nobody can read half a claim. All claims
    of one process say the same, so they are one file with many names: a name costs a tenth of a
    file.
    """
    path = f"{directory}/claim"
    if _own[0] == os.getpid():
        try:
            # The descriptor of `src_dir_fd` is not used but makes it follow the link in /proc.
            os.link(f"/proc/self/fd/{_own[1]}", path, src_dir_fd=_own[1])
            return True
        except FileExistsError:
            return False
        except OSError:  # all its names were removed, or it has too many, or is on another disk
            pass
    return _make(directory, path)


def _make(directory: str, path: str) -> bool:
    global _own
    pid = os.getpid()
    text = json.dumps({"pid": pid, "start_ticks": start_ticks(pid), "boot_id": boot_id()})
    draft = os.path.join(directory, f"claim.{pid}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode())
        os.link(draft, path)
    except BaseException as error:
        os.close(fd)
        if isinstance(error, FileExistsError):
            return False
        raise
    finally:
        os.unlink(draft)
    if _own[0] == pid:
        os.close(_own[1])
    _own = (pid, fd)
    return True


def read(directory: str) -> Optional[Claim]:
    """Who has claimed the run in `directory`; None when nobody did."""
    try:
        data = json.loads(read_small(os.path.join(directory, "claim")))
        return Claim(int(data["pid"]), int(data["start_ticks"]), str(data["boot_id"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
