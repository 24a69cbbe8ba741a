"""Real clusters on trial: beds of their own, brought up for all tests of the contract."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

from benches import SMALL, URGENT, Bench
from testbeds import process

from dromon.engines.base import Engine, Filter, JobRef, Launch, Node


class YarnBench(Bench):
    """A real cluster. Members run on the node with the label, and have it to themselves: masters
    run on the other one, so that room means the same as on the other benches."""

    name = "yarn"
    patience = 4.0  # a container takes a while where a process takes none
    SETTINGS: ClassVar = {
        # Much of what is waited for here is a node's next beat.
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "250",
        "yarn.resourcemanager.am.max-attempts": "10",
        "yarn.cluster.max-application-priority": "10",
        # YARN preempts for queues, not for priorities: nearly all the room for members is the
        # urgent one's, as long as it wants it.
        **{
            f"yarn.scheduler.capacity.root.{queue}.accessible-node-labels.gpu.capacity": share
            for queue, share in (("default", "1"), ("research", "1"), ("urgent", "98"))
        },
        "yarn.scheduler.capacity.root.default.user-limit-factor": "100",
        "yarn.nodemanager.resource.cpu-vcores": "6",
        # Elsewhere they are not, or in another format.
        "yarn.nodemanager.log-aggregation.compression-type": "gz",
    }

    @classmethod
    def lacks(cls) -> str:
        from testbeds.yarn import jars

        try:
            jars.find_java()
        except jars.JavaMissing as error:
            return str(error)
        return ""

    def __init__(self, home: Path) -> None:
        from testbeds.yarn.bed import Bed
        from testbeds.yarn.plan import Options

        self.bed = Bed(str(home / "bed"), tell=print)
        self.bed.up(Options(expiry=20, settings=self.SETTINGS))
        self.bed.label("node2", "gpu")
        super().__init__(home)

    def client(self) -> Engine:
        from dromon.contexts.file import Context
        from dromon.engines.yarn.engine import YarnEngine

        where = self.bed.plan.conf()
        return YarnEngine(Context("bed", "yarn", where, shared=str(self.home)), str(self.home))

    def launch(self, script: str | None = None, **job: Any) -> Launch:
        if job.get("priority") == URGENT:
            job["queue"] = "urgent"
        roles = job.get("roles") or {"": job}
        for role in roles.values():
            role["node_label"] = "gpu"
            if "resources" in role:
                role["resources"] = {"memory": SMALL["memory"], **role["resources"]}
        # The nodes' own Python, so that no environment has to be shipped.
        job.setdefault("yarn", {"python": sys.executable, "lease": 10})
        return super().launch(script, **job)

    def _node(self) -> Node:
        return next(node for node in self.engine.nodes() if "gpu" in node.labels)

    @property
    def cpus(self) -> float:
        return self._node().total["cpus"]

    def free_cpus(self) -> float:
        return self._node().free["cpus"]

    def waits(self, ref: JobRef) -> bool:
        """Its master is up, which takes room of another kind, and has asked in vain."""

        def has_reason() -> bool:
            why = self.engine.why(ref) if self.engine.status(ref).state == "queued" else None
            return why is not None and why.reason == "resources"

        return self.until(has_reason)

    def leave(self) -> None:
        self.engine.close()  # type: ignore[attr-defined]
        super().leave()

    def evict(self, ref: JobRef, member: str) -> None:
        os.kill(self._front(ref, member), signal.SIGKILL)

    def evict_politely(self, ref: JobRef, member: str) -> None:
        os.kill(self._front(ref, member), signal.SIGTERM)

    def _front(self, ref: JobRef, member: str) -> int:
        return self._process(ref, f"yarn-member\0{member}\0")

    def _process(self, ref: JobRef, words: str) -> int:
        """The outermost process of a container."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                environ = (folder / "environ").read_bytes()
                said = words.encode() in (folder / "cmdline").read_bytes()
                if said and self._application(ref).encode() in environ:
                    found.append(int(folder.name))
        return process.by_age(found)[0]

    def _application(self, ref: JobRef) -> str:
        return str(self.engine.show(ref)["application"])  # type: ignore[attr-defined]

    def restart_controller(self, after: float = 0) -> None:
        for status in self.engine.list(Filter()):
            # One that has not started yet, or is just ending, has none.
            with contextlib.suppress(IndexError, ProcessLookupError):
                os.kill(self._process(status.id, "yarn-master\0"), signal.SIGKILL)
        time.sleep(after)

    def outputs(self, ref: JobRef) -> dict[str, bytes]:
        engine: Any = self.engine
        listed = engine.show(ref)["outputs"]
        read = engine.staging.read_file
        return {o["path"]: read(ref, f"outputs/{o['path']}") for o in listed if "size" in o}

    def survivors(self) -> list[str]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                environ = (folder / "environ").read_bytes()
                if b"CONTAINER_ID=" in environ and os.fsencode(str(self.home)) in environ:
                    found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
        return found

    def close(self) -> None:
        self.engine.close()  # type: ignore[attr-defined]
        self.bed.down()


class KubernetesBench(Bench):
    """A real cluster of one node, so that room means the same as on the other benches."""

    name = "kubernetes"
    patience = 5.0  # a pod takes a while where a process takes none
    tick = 1.1  # Kubernetes writes down whole seconds, and Volcano goes by name within one
    python = "python3"  # the image's

    @classmethod
    def lacks(cls) -> str:
        from testbeds.kubernetes import programs

        try:
            programs.find_go()
        except programs.GoMissing as error:
            return str(error)
        return ""

    def __init__(self, home: Path) -> None:
        from testbeds.kubernetes.bed import Bed
        from testbeds.kubernetes.plan import Options

        self.bed = Bed(str(home / "bed"), tell=print)
        classes = {f"p{number}".replace("-", "m"): number for number in (-1, 0, 1, 5, URGENT, 50)}
        self.bed.up(Options(nodes=1, expiry=20, priorities=classes))
        super().__init__(home)

    def client(self) -> Engine:
        from testbeds.kubernetes.plan import IMAGE

        from dromon.contexts.file import Context
        from dromon.engines.kubernetes.engine import KubernetesEngine

        context = Context(
            "bed", "kubernetes", self.bed.kubeconfig, image=IMAGE, pull="Never",
            store=self.bed.shared,
        )  # fmt: skip
        return KubernetesEngine(context, str(self.home))

    def waits(self, ref: JobRef) -> bool:
        """The scheduler knows of its pods: the next room may be its."""
        from dromon.engines.kubernetes.volcano import POD, VOLCANO_JOB

        engine: Any = self.engine

        def is_in_line() -> bool:
            pods = engine.api.list(POD, engine.namespace, labels=f"{VOLCANO_JOB}={ref}")
            return len(pods) > 0

        return super().waits(ref) and self.until(is_in_line)

    def leave(self) -> None:
        self.engine.close()  # type: ignore[attr-defined]
        super().leave()

    def evict(self, ref: JobRef, member: str) -> None:
        os.kill(self._front(ref, member), signal.SIGKILL)

    def evict_politely(self, ref: JobRef, member: str) -> None:
        from dromon.engines.kubernetes.volcano import POD

        engine: Any = self.engine
        engine.api.delete(POD, engine.namespace, f"{ref}-{member}")

    def _front(self, ref: JobRef, member: str) -> int:
        """The first process of the member's container: the node is this machine."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                is_ours = f"DROMON_POD={ref}-{member}\0".encode() in (
                    (folder / "environ").read_bytes()
                )
                if is_ours and b"kubernetes-member" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return process.by_age(found)[0]

    def restart_controller(self, after: float = 0) -> None:
        for name in ("volcano-controllers", "volcano-scheduler"):
            self.bed.kill(name)
        time.sleep(after)
        for name in ("volcano-controllers", "volcano-scheduler"):
            self.bed.start(name)

    def outputs(self, ref: JobRef) -> dict[str, bytes]:
        engine: Any = self.engine
        record = engine.store.record(ref)
        listed = engine.show(ref)["outputs"]
        return {
            o["path"]: Path(record.path("outputs", o["path"])).read_bytes()
            for o in listed
            if "size" in o
        }

    def survivors(self) -> list[str]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if b"kubernetes-member" in (folder / "cmdline").read_bytes():
                    environ = (folder / "environ").read_bytes()
                    if os.fsencode(self.bed.plan.control) in environ:
                        found.append((folder / "cmdline").read_bytes().decode(errors="replace"))
        return found

    def close(self) -> None:
        self.engine.close()  # type: ignore[attr-defined]
        self.bed.down()
