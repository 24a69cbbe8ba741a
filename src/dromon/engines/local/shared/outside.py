"""Who is on a GPU without having asked: processes of the driver's list, and locks of daemons that
do not ask this arbiter.

Pretended GPUs have no driver; for them a file says which processes are on which, so that what
follows from it can be tried: $DROMON_FAKE_PROCESSES, {"FAKE-0": [pid, …]}.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence

from dromon.agent import gpu
from dromon.agent.devices import Device, Locks
from dromon.engines.local.shared.entries import Entry
from dromon.engines.local.shared.people import People

VARIABLE = "DROMON_FAKE_PROCESSES"
Processes = Callable[[], Mapping[str, Sequence[int]]]  # device -> processes on it


def of_machine(devices: Sequence[Device]) -> Processes:
    """Where to look for processes on these devices."""
    if any(device.vendor == "fake" for device in devices):
        path = os.environ.get(VARIABLE, "")
        return lambda: _of_file(path)
    return lambda: gpu.machine().processes()


def _of_file(path: str) -> Mapping[str, Sequence[int]]:
    try:
        with open(path) as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class Outside:
    """Looks at GPUs that nobody was given; and, at those that were, for anybody else."""

    def __init__(
        self, devices: Sequence[Device], locks: Locks, people: People, processes: Processes
    ) -> None:
        self._devices = [device.uuid for device in devices]
        self._locks = locks
        self._people = people
        self._processes = processes

    def look(self, given: Mapping[str, int]) -> dict[str, str]:
        """Device -> who is on it who should not be, in words. `given`: device -> the user who
        has it from us."""
        found = {}
        processes = self._processes()
        for uuid in self._devices:
            owner = given.get(uuid)
            strangers = [
                (pid, uid)
                for pid in processes.get(uuid, ())
                if (uid := _uid(pid)) is not None and uid != owner
            ]
            if strangers:
                found[uuid] = ", ".join(self._words(pid, uid) for pid, uid in strangers[:3])
            elif owner is None and (said := self._locks.holder(uuid)) is not None:
                user, job = said.get("user", "unknown"), said.get("job")
                found[uuid] = f"{job or 'a lock'} of {user}, not through the arbiter"
        return found

    def is_gone(self, entry: Entry) -> bool:
        """Nothing of this job can be alive: nobody holds its GPUs, or its user has no process."""
        if entry.gpus:
            return all(self._locks.holder(gpu) is None for gpu in entry.gpus)
        pids = (name for name in os.listdir("/proc") if name.isdecimal())
        return not any(_uid(int(pid)) == entry.uid for pid in pids)

    def _words(self, pid: int, uid: int) -> str:
        return f"process {pid} ({_command(pid)}) of {self._people.of(uid).name}, outside Dromon"


def _uid(pid: int) -> int | None:
    """Whose process it is; None when it has ended."""
    try:
        return os.stat(f"/proc/{int(pid)}").st_uid
    except (OSError, ValueError, TypeError):
        return None


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return "?"
