"""Processes: start one apart from us, find a whole tree, signal it, reap it. Linux.

The agent is a child subreaper: whatever its member forks and leaves behind becomes the agent's
child, so "no child left" means that nothing of the member runs any more. Nothing here knows why a
process is started or ended.
"""

import ctypes
import errno
import os
import signal
import time
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, NoReturn, Sequence, Set, Tuple

from dromon.agent.files import read_small

PR_SET_CHILD_SUBREAPER = 36
MARKER = "DROMON_MEMBER"

# "Ignore" survives exec: Python ignores the first two, the launcher or the agent the others.
_RESET = [
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP,
]  # fmt: skip

try:
    # Loaded with the module: an agent is forked from a process that has it already.
    _prctl: Any = ctypes.CDLL(None, use_errno=True).prctl
except (OSError, AttributeError):  # no libc of this name: orphans go to init, markers find them
    _prctl = None


class CgroupRefused(OSError):
    """The kernel did not let a process into a cgroup it was meant for."""


class Ended(NamedTuple):
    pid: int
    status: int
    peak_memory: int  # bytes, of the process or of one of its children


def become_subreaper() -> bool:
    return _prctl is not None and bool(_prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


# ---- start --------------------------------------------------------------------------------------


def find_program(name: str, env: Mapping[str, str], directory: str) -> str:
    """The file to execute. Raises FileNotFoundError or PermissionError, as exec would."""
    if "/" in name:
        return os.path.join(directory, name)
    refused = ""
    for place in env.get("PATH", os.defpath).split(":"):
        path = os.path.join(directory, place or ".", name)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
        if os.path.isfile(path):
            refused = path
    if refused:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), refused)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def spawn(
    path: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    directory: str,
    out: int,
    err: int,
    cgroups: Sequence[str] = (),
) -> int:
    """Start a process in a session of its own, stdin empty; its pid. Raises OSError as exec does.

    Every descriptor not marked inheritable is closed in it. posix_spawn is vfork underneath and
    costs half of a fork; it cannot enter a cgroup first, so then we do fork.
    """
    os.chdir(directory)
    if not cgroups:
        actions: List[Tuple[int, ...]] = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),  # type: ignore[list-item]
            (os.POSIX_SPAWN_DUP2, out, 1),
            (os.POSIX_SPAWN_DUP2, err, 2),
        ]
        try:
            return os.posix_spawn(
                path, list(argv), env,
                file_actions=actions, setsid=True, setsigmask=(), setsigdef=_RESET,
            )  # fmt: skip
        except NotImplementedError:  # built against a C library without POSIX_SPAWN_SETSID
            pass
    return _fork(path, argv, env, out, err, cgroups)


def _fork(
    path: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    out: int,
    err: int,
    cgroups: Sequence[str],
) -> int:
    said, say = os.pipe()
    pid = os.fork()
    if pid == 0:
        _exec(path, argv, env, out, err, cgroups, say)
    os.close(say)
    answer = os.read(said, 16).decode().split()
    os.close(said)
    if answer:
        os.waitpid(pid, 0)
        what, code = answer[0], int(answer[1])
        if what == "cgroup":
            raise CgroupRefused(code, f"cannot join its cgroup: {os.strerror(code)}", cgroups[0])
        raise OSError(code, os.strerror(code), path)
    return pid


def _exec(
    path: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    out: int,
    err: int,
    cgroups: Sequence[str],
    say: int,
) -> NoReturn:
    """The child's side of `_fork`."""
    what = "cgroup"
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        for cgroup in cgroups:
            with open(os.path.join(cgroup, "cgroup.procs"), "w") as file:
                file.write("0")
        what = "exec"
        null = os.open("/dev/null", os.O_RDONLY)
        for fd, target in ((null, 0), (out, 1), (err, 2)):
            os.dup2(fd, target)
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(path, list(argv), dict(env))
    except OSError as error:
        os.write(say, f"{what} {error.errno or errno.EIO}".encode())
    finally:
        os._exit(127)


# ---- trees --------------------------------------------------------------------------------------


def children(pid: int) -> List[int]:
    found: List[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        try:
            found += map(int, read_small(f"/proc/{pid}/task/{task}/children").split())
        except OSError:
            pass
    return found


def descendants(pid: int) -> List[int]:
    """All processes below `pid`, parents before their children."""
    if not os.path.exists(f"/proc/{pid}/task/{pid}/children"):
        return _descendants_by_parent(pid)
    found: List[int] = []
    level = children(pid)
    while level:
        found += level
        level = [child for parent in level for child in children(parent)]
    return found


def _descendants_by_parent(pid: int) -> List[int]:
    """For a kernel that does not list children."""
    below: Dict[int, List[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = stat_of(int(entry))
            if fields:
                below.setdefault(int(fields[1]), []).append(int(entry))
    found: List[int] = []
    level = below.get(pid, [])
    while level:
        found += level
        level = [child for parent in level for child in below.get(parent, [])]
    return found


def stat_of(pid: int) -> List[bytes]:
    """The fields of /proc/<pid>/stat from the state on (the third of proc(5)); [] if it is gone."""
    try:
        return read_small(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return []


def start_ticks(pid: int) -> int:
    """When it started, in ticks since boot: with the pid, the name of one process. 0: gone."""
    fields = stat_of(pid)
    return int(fields[19]) if fields and fields[0] not in (b"Z", b"X") else 0


def signal_tree(number: int, leaders: Iterable[int] = ()) -> None:
    """Signal every process below us: the leaders' groups at once, then whoever left them."""
    reached: Set[int] = set()
    for leader in leaders:
        try:
            os.killpg(leader, number)
            reached.add(leader)
        except OSError:
            pass
    for pid in descendants(os.getpid()):
        try:
            if not reached or os.getpgid(pid) not in reached:
                os.kill(pid, number)
        except OSError:
            pass


def reap() -> Tuple[List[Ended], bool]:
    """Children that ended, and whether any is left."""
    ended: List[Ended] = []
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended.append(Ended(pid, status, usage.ru_maxrss * 1024))


# ---- survivors of a killed agent ----------------------------------------------------------------


def survivors(marker: str) -> List[int]:
    """Processes of this user that carry DROMON_MEMBER=<marker>: what a killed agent left behind.

    One that has thrown its environment away is not found.
    """
    wanted = f"{MARKER}={marker}".encode()
    found: List[int] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            variables = read_small(f"/proc/{entry}/environ").split(b"\0")
            if wanted in variables and start_ticks(int(entry)):
                found.append(int(entry))
        except OSError:
            pass
    return found


def kill_survivors(marker: str, patience: float = 5.0) -> List[int]:
    """SIGKILL them until none is left, new ones too; those that could not be killed in time."""
    end = time.monotonic() + patience
    while True:
        left = survivors(marker)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.01)
