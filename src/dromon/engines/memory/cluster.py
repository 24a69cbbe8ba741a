"""The cluster below the memory engine: stored objects, capacity, and pods as real processes.

What would be the API server's store and a kubelet. It outlives the controller and decides nothing.
"""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


@dataclass(slots=True)
class Pod:
    """One slot of a gang. A restarted job gets new pods, with a higher version."""

    job: str
    member: str
    version: int
    resources: Mapping[str, float]
    grace: float
    command: tuple[str, ...]
    phase: str = RUNNING
    code: int | None = None
    deleted: bool = False  # its deletion was asked for, by whomever
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def is_going(self) -> bool:
        return self.deleted and self.phase == RUNNING


class Cluster:
    """Objects and pods. Every method may be called from any thread."""

    def __init__(self, cpus: float = 4, memory: float = 2**34, gpus: int = 0) -> None:
        self.total: dict[str, float] = {"cpus": cpus, "memory": memory, "gpus": gpus}
        self.changed = threading.Condition(threading.RLock())
        self._objects: dict[str, str] = {}  # job id -> JSON: nothing lives in a controller alone
        self._pods: list[Pod] = []
        # A pod ends with the thread that started it, so that thread must be nobody else's.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="kubelet")

    # ---- the store ----------------------------------------------------------------------------

    def get(self, job: str) -> dict[str, Any] | None:
        with self.changed:
            found = self._objects.get(job)
        return None if found is None else dict(json.loads(found))

    def put(self, job: str, value: Mapping[str, Any]) -> None:
        with self.changed:
            self._objects[job] = json.dumps(value)
            self.changed.notify_all()

    def jobs(self) -> list[str]:
        with self.changed:
            return list(self._objects)

    # ---- pods ---------------------------------------------------------------------------------

    def pods(self, job: str, version: int | None = None) -> list[Pod]:
        with self.changed:
            return [
                p for p in self._pods if p.job == job and (version is None or p.version == version)
            ]

    def free(self) -> dict[str, float]:
        with self.changed:
            held = [p.resources for p in self._pods if p.phase == RUNNING]
        return {
            name: round(total - sum(r.get(name, 0) for r in held), 6)
            for name, total in self.total.items()
        }

    def create(self, pod: Pod) -> None:
        command = [sys.executable, *pod.command]
        pod.process = self._starter.submit(
            lambda: subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        ).result()
        with self.changed:
            self._pods.append(pod)
        threading.Thread(target=self._reap, args=(pod,), daemon=True).start()

    def delete(self, pod: Pod, grace: float | None = None) -> None:
        """SIGTERM, and after the grace everything in the pod is killed."""
        with self.changed:
            if pod.deleted or pod.phase != RUNNING:
                return
            pod.deleted = True
        self._signal(pod, signal.SIGTERM)
        seconds = pod.grace if grace is None else grace
        timer = threading.Timer(seconds, self._signal, (pod, signal.SIGQUIT))
        timer.daemon = True
        timer.start()

    def kill(self, pod: Pod) -> None:
        """The node takes the pod away without a word."""
        with self.changed:
            pod.deleted = True
        self._signal(pod, signal.SIGQUIT)

    def close(self) -> None:
        """Everything ends; nothing may outlive the test that asked for it."""
        for pod in list(self._pods):
            self.kill(pod)
        deadline = time.monotonic() + 10
        with self.changed:
            while any(p.phase == RUNNING for p in self._pods) and time.monotonic() < deadline:
                self.changed.wait(0.1)
        self._starter.shutdown()

    def _reap(self, pod: Pod) -> None:
        assert pod.process is not None
        code = pod.process.wait()
        with self.changed:
            pod.code = code
            pod.phase = SUCCEEDED if code == 0 else FAILED
            self.changed.notify_all()

    @staticmethod
    def _signal(pod: Pod, number: int) -> None:
        if pod.process is not None:
            with contextlib.suppress(ProcessLookupError):
                pod.process.send_signal(number)
