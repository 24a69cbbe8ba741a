"""Memory limits by cgroup, v2 or v1, where this user may make one. Found out by trying.

Without one the agent's own watch is all there is, and `nodes` and `plan` say so.
"""

import os
import signal
import time
from dataclasses import dataclass

MOUNT = "/sys/fs/cgroup"


@dataclass(frozen=True, slots=True)
class Cgroups:
    parent: str  # an existing directory in which children can be made
    version: int

    @staticmethod
    def probe(mount: str = MOUNT) -> "Cgroups | None":
        for parent, version in _candidates(mount):
            found = Cgroups(parent, version)
            if found._works():
                return found
        return None

    def describe(self) -> str:
        return f"by the kernel (cgroup v{self.version})"

    def make(self, name: str, memory: int) -> str:
        """A cgroup with this limit; its directory, for the agent to put the member into."""
        path = os.path.join(self.parent, name)
        os.makedirs(path, exist_ok=True)
        if self.version == 2:
            _write(path, "memory.max", str(memory))
            _write(path, "memory.swap.max", "0", optional=True)
            _write(path, "memory.oom.group", "1", optional=True)
        else:
            _write(path, "memory.limit_in_bytes", str(memory))
            _write(path, "memory.memsw.limit_in_bytes", str(memory), optional=True)
        return path

    def remove_all(self, prefix: str) -> None:
        """Those of an ended job, whichever life of the daemon made them."""
        for name in os.listdir(self.parent):
            if name.startswith(prefix):
                self.remove(os.path.join(self.parent, name))

    def remove(self, path: str) -> None:
        """After its last process ended; the kernel may need a moment to see that."""
        for _ in range(20):
            try:
                os.rmdir(path)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.01)

    def _works(self) -> bool:
        path = os.path.join(self.parent, f"dromon-probe-{os.getpid()}")
        try:
            self.make(os.path.basename(path), 64 << 20)
        except OSError:
            _discard(path)
            return False
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        try:
            _write(path, "cgroup.procs", str(child))
            with open(f"/proc/{child}/cgroup") as file:
                return os.path.basename(path) in file.read()
        except OSError:
            return False
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self.remove(path)


def _candidates(mount: str) -> list[tuple[str, int]]:
    try:
        with open("/proc/self/cgroup") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    found = []
    for _, controllers, path in lines:
        if controllers == "":
            own = os.path.join(mount, path.lstrip("/"))
            # Own group first, then its parent: a group that holds processes cannot hand
            # controllers to children, but its delegated parent often can.
            found += [(p, 2) for p in (own, os.path.dirname(own)) if p.startswith(mount)]
        elif "memory" in controllers.split(","):
            found.append((os.path.join(mount, "memory", path.lstrip("/")), 1))
    return [(p, v) for p, v in found if os.path.isdir(p) and os.access(p, os.W_OK)]


def _write(path: str, name: str, value: str, optional: bool = False) -> None:
    target = os.path.join(path, name)
    if optional and not os.path.exists(target):
        return
    try:
        with open(target, "w") as file:
            file.write(value)
    except OSError:
        if not optional:
            raise


def _discard(path: str) -> None:
    if os.path.isdir(path):
        try:
            os.rmdir(path)
        except OSError:
            pass
