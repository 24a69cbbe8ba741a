"""The bed's control groups: every process of it is in one of them, whoever started it.

NAME/control        the control plane
NAME/node1/daemons  containerd and kubelet of a node
NAME/node1/…        its pods, made by its kubelet
"""

import os
import signal
import time
from pathlib import Path

from dromon.errors import EngineError
from testbeds.kubernetes.plan import Plan

ROOT = Path("/sys/fs/cgroup")
SECONDS = 20.0  # for what was killed to be gone


class CgroupsFailed(EngineError):
    """This machine would not give the bed control groups."""

    hint = "The test bed needs root and a writable /sys/fs/cgroup."


def make(plan: Plan) -> None:
    try:
        for hierarchy in hierarchies():
            for group in ("control", *(f"{node}/daemons" for node in plan.nodes)):
                _make(hierarchy, Path(plan.name, group))
    except OSError as error:
        raise CgroupsFailed(f"No control group could be made: {error}") from None


def joining(plan: Plan, group: str) -> list[str]:
    """What to put before a command so that it runs in that group."""
    file = hierarchies()[0] / plan.name / group / "cgroup.procs"
    return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(file)]


def processes(plan: Plan, group: str = "") -> list[int]:
    top = hierarchies()[0] / plan.name / group
    found: list[int] = []
    for folder, _, _ in os.walk(top):
        try:
            found += [int(line) for line in Path(folder, "cgroup.procs").read_text().split()]
        except OSError:  # removed meanwhile
            continue
    return found


def kill(plan: Plan, group: str = "") -> None:
    """All at once, and what they start meanwhile, until none is left."""
    deadline = time.monotonic() + SECONDS
    while found := processes(plan, group):
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            raise CgroupsFailed(f"Processes of {plan.name} do not end: {found[:10]}")
        time.sleep(0.05)


def remove(plan: Plan) -> None:
    """Of empty groups; those below first."""
    for hierarchy in _mounted("cgroup", "cgroup2"):
        for folder, _, _ in os.walk(hierarchy / plan.name, topdown=False):
            for _ in range(20):
                try:
                    os.rmdir(folder)
                except FileNotFoundError:
                    break
                except OSError:  # the last process is still on its way out
                    time.sleep(0.05)
                else:
                    break


def hierarchies() -> list[Path]:
    """One for each controller, or one for all: `pids` first, for it counts every process."""
    if ROOT in _mounted("cgroup2"):
        return [ROOT]
    found = _mounted("cgroup")
    if not found:
        raise CgroupsFailed("There are no control groups on this machine.")
    return sorted(found, key=lambda place: (place.name != "pids", place))


def _mounted(*kinds: str) -> list[Path]:
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return [Path(words[1]) for words in mounts if words[2] in kinds]


def _make(hierarchy: Path, group: Path) -> None:
    above = hierarchy
    for part in group.parts:
        _hand_down(above)
        below = above / part
        below.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):  # empty at first, and then nothing may run
            file = below / name
            if hierarchy != ROOT and file.exists() and not file.read_text().strip():
                file.write_text((above / name).read_text())
        above = below


def _hand_down(group: Path) -> None:
    """Where all controllers are in one hierarchy, each level must let them through."""
    controllers = group / "cgroup.controllers"
    if controllers.exists():
        for controller in controllers.read_text().split():
            try:
                (group / "cgroup.subtree_control").write_text(f"+{controller}")
            except OSError:  # not to be had here; pods then go without its limits
                continue
