"""GPUs of this machine: which there are, and the locks by which users' daemons share them.

A GPU in use is held by a file lock in a directory open to every user. The lock is taken here, and
its descriptor travels through the launcher into the member, so that it is held exactly as long as
anything of the member lives, whatever happens to daemon and agent.
"""

import fcntl
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dromon.agent import gpu

LOCKS = "/tmp/dromon-gpus"


@dataclass(frozen=True, slots=True)
class Device:
    index: int
    uuid: str
    name: str
    memory: int
    vendor: str  # "nvidia", "amd", "fake"

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
        return [Device(i, f"FAKE-{i}", "Fake F100", 16 << 30, "fake") for i in range(fake)]
    found = gpu.devices()
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = [
        Device(d.index, d.uuid, d.name, d.memory, d.vendor)
        for d in found
    ]  # fmt: skip
    if allowed is not None and all(p.strip().isdigit() for p in allowed.split(",") if p.strip()):
        visible = {int(p) for p in allowed.split(",") if p.strip()}
        devices = [d for d in devices if d.index in visible]
    return devices


def visible(devices: Sequence[Device]) -> dict[str, str]:
    """The variables that show a member its GPUs and hide the others."""
    indexes = ",".join(str(d.index) for d in devices)
    if any(d.vendor == "amd" for d in devices):
        return {"ROCR_VISIBLE_DEVICES": indexes, "HIP_VISIBLE_DEVICES": indexes}
    if devices:
        return {"CUDA_VISIBLE_DEVICES": indexes, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {"CUDA_VISIBLE_DEVICES": ""}


class Locks:
    """The shared directory of lock files, one for each GPU."""

    def __init__(self, root: str | None = None) -> None:
        self.root = root or os.environ.get("DROMON_GPU_LOCKS") or LOCKS

    def take(self, uuid: str, holder: Mapping[str, Any]) -> int | None:
        """A descriptor that holds the GPU, or None when somebody else does."""
        fd = self._open(uuid)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(holder).encode(), 0)
        return fd

    def holder(self, uuid: str) -> dict[str, Any] | None:
        """Who holds it now, as far as the holder said."""
        fd = self._open(uuid)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
            except BlockingIOError:
                pass
            try:
                said = json.loads(os.pread(fd, 4096, 0))
            except ValueError:
                said = {}
            return said if isinstance(said, dict) else {}
        finally:
            os.close(fd)

    def _open(self, uuid: str) -> int:
        if not os.path.isdir(self.root):
            os.makedirs(self.root, exist_ok=True)
            try:
                os.chmod(self.root, 0o1777)
            except PermissionError:
                pass  # made by another user between the two lines
        path = os.path.join(self.root, f"{uuid}.lock")
        try:
            # Without O_CREAT first: Linux refuses that on another user's file in a sticky folder.
            fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            os.fchmod(fd, 0o666)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(f"{path} is not a regular file")
        return fd
