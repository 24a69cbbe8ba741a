"""A daemon's process, known by its id, its start and its boot."""

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

GRACE = 10.0  # seconds from TERM to KILL


@dataclass(frozen=True)
class Process:
    """Ids are used again; a start time in one boot is not."""

    pid: int
    started: int  # clock ticks since boot
    boot: str

    @property
    def is_alive(self) -> bool:
        try:  # a child of ours that ended stays in the table until asked for
            os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            pass
        return self.boot == _boot() and _started(self.pid) == self.started

    def signal(self, number: int) -> None:
        if self.is_alive:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def wait(self, seconds: float) -> bool:
        """Whether it ended in that time."""
        deadline = time.monotonic() + seconds
        while self.is_alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def memory(self) -> int:
        """Resident bytes, 0 when it is gone."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


def spawn(command: list[str], *, log: str, cwd: str, env: dict[str, str]) -> Process:
    """Starts it in a session of its own, so that it outlives whoever brought the bed up."""
    with open(log, "ab") as output:
        child = subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    child.returncode = 0  # from here on it is known by what we write down, not by this object
    return Process(pid=child.pid, started=_started(child.pid) or 0, boot=_boot())


def stop(processes: list[Process]) -> None:
    """All of them at once: TERM, and KILL for those that stay."""
    for process in processes:
        process.signal(signal.SIGTERM)
        process.signal(signal.SIGCONT)  # a suspended one would never hear it
    deadline = time.monotonic() + GRACE
    for process in processes:
        if not process.wait(max(0.0, deadline - time.monotonic())):
            process.signal(signal.SIGKILL)
            process.wait(GRACE)


def inheriting(name: str, prefix: str) -> list[Process]:
    """Processes whose environment has `name` beginning with `prefix`."""
    needle = os.fsencode(f"{name}={prefix}")
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        pid = int(entry.name)
        started = _started(pid)
        try:
            environment = Path(entry.path, "environ").read_bytes()
        except OSError:  # ended meanwhile, or another user's
            continue
        if started is not None and any(v.startswith(needle) for v in environment.split(b"\0")):
            found.append(Process(pid=pid, started=started, boot=_boot()))
    return found


def by_age(pids: Iterable[int]) -> list[int]:
    """Those that live, the eldest first. Their numbers do not tell: these begin anew some day."""
    found = [(started, pid) for pid in pids if (started := _started(pid)) is not None]
    return [pid for _, pid in sorted(found)]


def _started(pid: int) -> int | None:
    """None when there is no such process, or nothing but its exit code is left of it. One whose
    first thread has ended before the others still has its sockets and files."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    is_over = fields[0] in (b"Z", b"X") and int(fields[17]) <= 1
    return None if is_over else int(fields[19])


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
