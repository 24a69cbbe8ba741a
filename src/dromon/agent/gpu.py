"""GPUs of this machine and what a tree of processes uses of them.

NVIDIA through its management library (NVML, by ctypes), AMD through sysfs. Where there is no
driver, no library or no permission, the answer is nothing; nothing here ever raises. Which GPU
belongs to whom is not decided here.
"""

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from typing import Any, Callable, Dict, Iterable, List, Optional

_BUFFER = 96
_UNKNOWN = 2**64 - 1  # NVML's "not available" for the memory of a process
_KFD = "/sys/class/kfd/kfd"


@dataclass(frozen=True)
class Device:
    index: int
    uuid: str
    name: str
    memory: int  # bytes
    vendor: str  # nvidia, amd
    minor: Optional[int] = None  # of NVIDIA's: /dev/nvidiaN, which need not be the index


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]  # fmt: skip


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Process(ctypes.Structure):  # nvmlProcessInfo_v2_t, which _v3 of the call fills too
    _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong),
                ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]  # fmt: skip


class Nvml:
    """The library, started. `open` gives None where there is none."""

    def __init__(self, library: Any) -> None:
        self._library = library

    @staticmethod
    def open() -> "Optional[Nvml]":
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            if library.nvmlInit_v2() == 0:
                return Nvml(library)
        except (OSError, AttributeError):
            pass
        return None

    def _call(self, name: str, *arguments: Any) -> bool:
        function: Optional[Callable[..., int]] = getattr(self._library, name, None)
        return function is not None and function(*arguments) == 0

    def _handles(self) -> List[ctypes.c_void_p]:
        count = ctypes.c_uint()
        if not self._call("nvmlDeviceGetCount_v2", ctypes.byref(count)):
            return []
        handles = []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            # One that cannot be opened (lost from the bus) still counts: indexes must not shift.
            self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
            handles.append(handle)
        return handles

    def devices(self) -> List[Device]:
        found = []
        for index, handle in enumerate(self._handles()):
            if not handle:
                continue
            memory = _Memory()
            self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
            uuid, name = (
                self._text("nvmlDeviceGetUUID", handle),
                self._text("nvmlDeviceGetName", handle),
            )
            number = ctypes.c_uint()
            is_known = self._call("nvmlDeviceGetMinorNumber", handle, ctypes.byref(number))
            minor = number.value if is_known else None
            found.append(Device(index, uuid, name, memory.total, "nvidia", minor))
        return found

    def use(self, pids: Iterable[int]) -> Dict[str, float]:
        """{"memory": bytes of these processes, "use": mean percent of the GPUs they are on}."""
        wanted = set(pids)
        memory, busy = 0, []
        for handle in self._handles():
            mine = [p for p in self._processes(handle) if p.pid in wanted] if handle else []
            if not mine:
                continue
            memory += sum(p.memory for p in mine if p.memory != _UNKNOWN)
            use = _Utilization()
            if self._call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(use)):
                busy.append(use.gpu)
        if not memory and not busy:
            return {}
        return {"memory": float(memory), "use": sum(busy) / len(busy) if busy else 0.0}

    def processes(self) -> Dict[str, List[int]]:
        """GPU -> the processes that compute on it, whosever they are."""
        return {
            self._text("nvmlDeviceGetUUID", handle): [p.pid for p in self._processes(handle)]
            for handle in self._handles()
            if handle
        }

    def _text(self, name: str, handle: ctypes.c_void_p) -> str:
        buffer = ctypes.create_string_buffer(_BUFFER)
        self._call(name, handle, buffer, ctypes.c_uint(_BUFFER))
        return buffer.value.decode("utf-8", "replace")

    def _processes(self, handle: ctypes.c_void_p) -> List[_Process]:
        count = ctypes.c_uint(1024)
        table = (_Process * 1024)()
        for version in ("_v3", "_v2"):
            name = "nvmlDeviceGetComputeRunningProcesses" + version
            if self._call(name, handle, ctypes.byref(count), table):
                return list(table[: count.value])
        return []


class Amd:
    """AMD's compute devices as the kernel lists them."""

    def __init__(self, root: str = _KFD) -> None:
        self._root = root

    def devices(self) -> List[Device]:
        found: List[Device] = []
        nodes = os.path.join(self._root, "topology", "nodes")
        for node in sorted(_list(nodes), key=lambda n: (len(n), n)):
            here = os.path.join(nodes, node)
            facts = _properties(os.path.join(here, "properties"))
            if not facts.get("simd_count"):  # a processor, not a GPU
                continue
            banks = os.path.join(here, "mem_banks")
            sizes = [_properties(os.path.join(banks, b, "properties")) for b in _list(banks)]
            memory = sum(s.get("size_in_bytes", 0) for s in sizes if s.get("heap_type") in (1, 2))
            uuid = f"GPU-{facts.get('unique_id', 0):016x}"
            name = _read(os.path.join(here, "name")).strip() or "AMD GPU"
            found.append(Device(len(found), uuid, name, memory, "amd"))
        return found

    def use(self, pids: Iterable[int]) -> Dict[str, float]:
        memory = 0
        for pid in pids:
            here = os.path.join(self._root, "proc", str(pid))
            for name in _list(here):
                if name.startswith("vram_"):
                    memory += _number(_read(os.path.join(here, name)))
        return {"memory": float(memory)} if memory else {}

    def processes(self) -> Dict[str, List[int]]:
        nodes = os.path.join(self._root, "topology", "nodes")
        found: Dict[str, List[int]] = {}
        for node in _list(nodes):
            id = _read(os.path.join(nodes, node, "gpu_id")).strip()
            facts = _properties(os.path.join(nodes, node, "properties"))
            if id and facts.get("simd_count"):
                held = (
                    int(pid)
                    for pid in _list(os.path.join(self._root, "proc"))
                    if _number(_read(os.path.join(self._root, "proc", pid, f"vram_{id}")))
                )
                found[f"GPU-{facts.get('unique_id', 0):016x}"] = list(held)
        return found


def _list(path: str) -> List[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _number(text: str) -> int:
    return int(text) if text.strip().isdigit() else 0


def _properties(path: str) -> Dict[str, int]:
    pairs = (line.split() for line in _read(path).splitlines())
    return {pair[0]: _number(pair[1]) for pair in pairs if len(pair) == 2}


class Gpus:
    """All of this machine's GPUs, whoever made them."""

    def __init__(self) -> None:
        nvml = Nvml.open()
        self._vendors: List[Any] = [nvml] if nvml is not None else []
        if os.path.isdir(_KFD):
            self._vendors.append(Amd())

    def devices(self) -> List[Device]:
        return [device for vendor in self._vendors for device in vendor.devices()]

    def use(self, pids: Iterable[int]) -> Dict[str, float]:
        wanted = list(pids)
        total: Dict[str, float] = {}
        for vendor in self._vendors:
            for name, value in vendor.use(wanted).items():
                total[name] = total.get(name, 0.0) + value
        return total

    def processes(self) -> Dict[str, List[int]]:
        """GPU -> the processes on it, of everybody."""
        return {uuid: pids for v in self._vendors for uuid, pids in v.processes().items()}


@cache
def machine() -> Gpus:
    """Opened once: the driver's library counts its users and takes its time."""
    return Gpus()


def devices() -> List[Device]:
    """The GPUs of this machine; [] where there is none or it cannot be told."""
    return machine().devices()
