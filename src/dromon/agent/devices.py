"""GPUs of this machine: which there are for us, and the locks by which all who run here share them.

A GPU in use is held by a file lock in a directory open to every user. Its descriptor goes into the
member (through the launcher, or from the agent of a container), so that it is held exactly as long
as anything of the member lives, whatever happens to daemon and agent.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dromon.agent import gpu

LOCKS = "/tmp/dromon-gpus"
VARIABLES = {
    "nvidia": ("CUDA_VISIBLE_DEVICES",),
    "amd": ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
}
TRIES = 3  # to take a lock: whoever asks for its holder has it for a moment too


@dataclass(frozen=True)
class Device:
    index: int
    uuid: str
    name: str
    memory: int
    vendor: str  # "nvidia", "amd", "fake"
    minor: int | None = None  # the number of its device file, where that is known

    @property
    def kind(self) -> str:
        """The short name a job file asks by: A100-SXM4-80GB is an a100, RTX 3090 an rtx3090."""
        family = ""
        for word in self.name.lower().replace("-", " ").replace("_", " ").split():
            if any(c.isdigit() for c in word):
                return family + word if word[0].isdigit() else word
            family = word if word in ("rtx", "gtx") else ""
        return self.name.lower().replace(" ", "-")


def discover(fake: int = 0) -> list[Device]:
    if fake:
        return [Device(i, f"FAKE-{i}", "Fake F100", 16 << 30, "fake", i) for i in range(fake)]
    devices = [Device(d.index, d.uuid, d.name, d.memory, d.vendor, d.minor) for d in gpu.devices()]
    return allowed(devices, os.environ)


def allowed(devices: Sequence[Device], environ: Mapping[str, str]) -> list[Device]:
    """Those the daemon's own environment leaves it: a batch system above us may have its say."""
    kept = list(devices)
    for vendor, variables in VARIABLES.items():
        for variable in variables:
            if (said := environ.get(variable)) is not None:
                words = _words(said)
                kept = [d for d in kept if d.vendor != vendor or _is_named(d, words)]
    return kept


def _words(said: str) -> list[str]:
    """As the drivers read it: what follows a word that names nothing is not looked at."""
    words = [word.strip() for word in said.split(",")]
    valid = [word.isdecimal() or word.startswith("GPU-") for word in words]
    return words[: valid.index(False)] if False in valid else words


def _is_named(device: Device, words: Sequence[str]) -> bool:
    return any(
        word == str(device.index) or (not word.isdecimal() and device.uuid.startswith(word))
        for word in words
    )


def visible(
    devices: Sequence[Device], machine: Sequence[Device], gated: bool = False
) -> dict[str, str]:
    """The variables that show a member its GPUs and hide the others this machine has. `gated`: the
    kernel lets it open its own only, so that the driver would count others than we do."""
    variables = {}
    if any(d.vendor != "amd" for d in machine):
        shown = [d for d in devices if d.vendor != "amd"]
        mine = ",".join(d.uuid if gated and d.vendor == "nvidia" else str(d.index) for d in shown)
        # In the order in which they were counted.
        variables = {"CUDA_VISIBLE_DEVICES": mine, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if any(d.vendor == "amd" for d in machine):
        mine = ",".join(str(d.index) for d in devices if d.vendor == "amd")
        # One of AMD's two only: each renumbers what the other has left. Empty would mean all.
        variables["HIP_VISIBLE_DEVICES"] = mine or "-1"
    return variables


def claim(count: int, locks: Locks, holder: Mapping[str, Any]) -> tuple[dict[str, str], list[int]]:
    """So many GPUs of this machine for one member, where nobody else has told us which: variables
    that show them and hide the others, and the descriptors that hold them.

    Where a container shows exactly as many as were asked for, these are its own, whoever else says
    so. Otherwise an OSError when there are not enough that nobody holds.
    """
    there = discover()
    if not there:
        return {}, []
    if len(there) == count:
        taken = (locks.take(device.uuid, holder) for device in there)
        return visible(there, there), [fd for fd in taken if fd is not None]
    mine: list[Device] = []
    held: list[int] = []
    for device in there:
        if len(mine) == count:
            break
        fd = locks.take(device.uuid, holder)
        if fd is not None:
            mine.append(device)
            held.append(fd)
    if len(mine) < count:
        for fd in held:
            os.close(fd)
        raise OSError(
            f"{count} GPUs were promised, but all but {len(mine)} of this node are in use"
        )
    return visible(mine, there), held


class Locks:
    """The shared directory of lock files, one for each GPU. `together`: somebody sees to it that
    parts of one GPU, of whichever user, are not more than all of it."""

    def __init__(self, root: str | None = None, together: bool = False) -> None:
        self.root = root or os.environ.get("DROMON_GPU_LOCKS") or LOCKS
        self._together = together

    def take(self, uuid: str, holder: Mapping[str, Any], part: bool = False) -> int | None:
        """A descriptor that holds the GPU, or a part of it; None when somebody else does."""
        part = part and self._together
        mode = fcntl.LOCK_SH if part else fcntl.LOCK_EX
        said = {**holder, "part": True} if part else holder
        for attempt in range(TRIES):
            try:
                fd = self._open(uuid)
            except OSError:
                return None  # nothing we may lock: its owner means to have it alone
            try:
                fcntl.flock(fd, mode | fcntl.LOCK_NB)
                if _is_still(self._path(uuid), fd):
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, json.dumps(said).encode(), 0)
                    return fd
            except BlockingIOError:
                time.sleep(0.001 * attempt)
            os.close(fd)
        return None

    def holder(self, uuid: str) -> dict[str, Any] | None:
        """Who holds it now, as far as the holder said."""
        try:
            fd = self._open(uuid)
        except OSError:
            return {"user": _owner(self._path(uuid))}
        try:
            said = _said(fd)
            if _is_free(fd, bool(said.get("part"))):
                return None
            return said or {"user": _owner(self._path(uuid))}
        finally:
            os.close(fd)

    def touch(self, uuid: str) -> None:
        """In use: those who clean up old temporary files must not take the lock away."""
        try:
            os.utime(self._path(uuid))
        except OSError:
            pass

    def _path(self, uuid: str) -> str:
        return os.path.join(self.root, f"{uuid}.lock")

    def _open(self, uuid: str) -> int:
        if not os.path.isdir(self.root):
            os.makedirs(self.root, exist_ok=True)
            try:
                os.chmod(self.root, 0o1777)
            except PermissionError:
                pass  # made by another user between the two lines
        path = self._path(uuid)
        try:
            # Without O_CREAT first: Linux refuses that on another user's file in a sticky folder.
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            try:
                os.fchmod(fd, 0o666)
            except PermissionError:
                pass  # another user was faster, and does it
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(f"{path} is not a regular file")
        return fd


def _is_still(path: str, fd: int) -> bool:
    """Not so when somebody has deleted the file: a lock on it would bind nobody."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


def _said(fd: int) -> dict[str, Any]:
    """What the last who held it wrote there."""
    try:
        found = json.loads(os.pread(fd, 4096, 0))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_free(fd: int, part: bool) -> bool:
    """Whether nobody holds it. Of which parts were held last may still be, and asking for all of
    it tells; another who asks has it for a moment too, so that is asked again."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    for attempt in range(TRIES if part else 0):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.001 * attempt)
    return not part


def _owner(path: str) -> str:
    import pwd

    try:
        return pwd.getpwuid(os.lstat(path).st_uid).pw_name
    except (OSError, KeyError):
        return "unknown"
