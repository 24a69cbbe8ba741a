"""Where the arbiter of this machine is found, and whether what lies there can be believed.

    /run/dromon             made by root
    /tmp/dromon-shared      made by any account; who was first has it
      arbiter.sock          open to all
      launcher.sock         only where root has started it: begins members as their user
      gpus/                 locks of pretended GPUs
      doors/                daemons' own sockets, for those with whom a job is shared

$DROMON_SHARED names another place; empty, there is none. Imported by every daemon: keep it light.
"""

import os
import socket
import stat
from collections.abc import Callable
from typing import NamedTuple

from dromon.engines.local.client import peer_uid
from dromon.errors import EngineError

PLACES = ("/run/dromon", "/tmp/dromon-shared")
VARIABLE = "DROMON_SHARED"
SOCKET, LAUNCHER, GPUS, DOORS = "arbiter.sock", "launcher.sock", "gpus", "doors"


class ArbiterAway(EngineError):
    """The arbiter of this machine does not answer."""

    hint = "Running jobs go on. `dromon daemon restart --alone` does without it."


class Place(NamedTuple):
    """A folder that only its owner can change."""

    root: str
    owner: int  # uid

    def path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    @property
    def socket(self) -> str:
        return self.path(SOCKET)

    @property
    def launcher(self) -> str | None:
        """The socket of root's launcher, where there is one."""
        path = self.path(LAUNCHER)
        return path if _is(path, stat.S_ISSOCK) else None


def find() -> Place | None:
    """The first place where an arbiter is, or was and has not left for good."""
    for root in candidates():
        owner = _owner(root)
        if owner is not None and _is(os.path.join(root, SOCKET), stat.S_ISSOCK):
            return Place(root, owner)
    return None


def candidates() -> tuple[str, ...]:
    said = os.environ.get(VARIABLE)
    if said is None:
        return PLACES
    return (os.path.abspath(said),) if said else ()


def _owner(root: str) -> int | None:
    """Whose folder it is; None when others could change what lies in it."""
    try:
        found = os.lstat(root)
    except OSError:
        return None
    if not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022:
        return None
    return found.st_uid


def _is(path: str, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(os.lstat(path).st_mode)
    except OSError:
        return False


def make(root: str) -> Place:
    """The place of a new arbiter of this account's."""
    os.makedirs(root, mode=0o755, exist_ok=True)
    owner = _owner(root)
    if owner != os.getuid():
        raise EngineError(
            f"{root} belongs to another user, or others may write to it",
            hint=f"An arbiter may be there already: `dromon daemon status`. Else remove {root}.",
        )
    os.chmod(root, 0o755)
    for name in (GPUS, DOORS):
        path = os.path.join(root, name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o1777)
    return Place(root, owner)


def connect(path: str, owner: int) -> socket.socket:
    """To a socket at which that user listens, as the kernel says, and nobody else."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(5.0)
        sock.connect(path)
        if peer_uid(sock) != owner:
            raise ArbiterAway(f"{path} is served by another user than its owner")
    except OSError as error:
        sock.close()
        raise ArbiterAway(f"{path}: {error.strerror or error}") from None
    except BaseException:
        sock.close()
        raise
    return sock


def launcher(at: Place) -> tuple[socket.socket, int, str] | None:
    """A launcher of ours that root has begun: the line to it, and the cgroup it lies in by version
    and path. None where root has nothing to do with this machine's arbiter, or is away."""
    path = at.launcher
    if path is None:
        return None
    try:
        sock = connect(path, 0)
        said = b""
        while not said.endswith(b"\n") and len(said) < 4096:
            more = sock.recv(1)  # what follows is not ours
            if not more:
                break
            said += more
        sock.settimeout(None)
        version, _, cgroup = said.decode().strip().partition(" ")
        return sock, int(version), cgroup
    except (EngineError, OSError, ValueError):
        return None
