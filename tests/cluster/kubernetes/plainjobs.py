"""Plain Volcano Jobs on a bed, through the API: what is looked at, but not made, by Dromon."""

import time
from collections.abc import Callable
from typing import Any

import jobs
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import GPU, IMAGE

from dromon.engines.base import JobStatus, Waiting, token
from dromon.engines.kubernetes import kubeconfig, status, volcano
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.situation import gather
from dromon.engines.kubernetes.why import explain

SLEEP = ["python3", "-c", "import time; time.sleep(600)"]


class Site:
    """A namespace of its own; everything in it goes when the test is through."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.api = Api(kubeconfig.find(str(bed.kubeconfig)))
        self.namespace = f"why-{token()}"
        self.queues: list[str] = []
        self.api.create(volcano.NAMESPACE, "", {"metadata": {"name": self.namespace}})
        jobs.is_settled(self.api, self.namespace)

    def close(self) -> None:
        for job in self.api.list(volcano.JOB, self.namespace):
            self.api.delete(volcano.JOB, self.namespace, job["metadata"]["name"], background=False)
        self.until(lambda: not self.api.list(volcano.POD, self.namespace))
        for queue in self.queues:
            self.shut(queue)
            self.api.delete(volcano.QUEUE, "", queue)
        self.api.delete(volcano.NAMESPACE, "", self.namespace)
        self.api.close()

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + jobs.PATIENCE
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.25)

    def queue(self, **spec: Any) -> str:
        name = f"why-{token()}"
        body = {"metadata": {"name": name}, "spec": {"weight": 1, "parent": "root", **spec}}
        self.api.create(volcano.QUEUE, "", body)
        self.queues.append(name)
        self.until(lambda: self.queue_state(name) == "Open")
        return name

    def shut(self, name: str) -> None:
        if self.queue_state(name) != "Closed":
            self.send(command_to_queue(self.api, name, "CloseQueue"))
        self.until(lambda: self.queue_state(name) == "Closed")

    def queue_state(self, name: str) -> str:
        found = self.api.read(volcano.QUEUE, "", name) or {}
        return str((found.get("status") or {}).get("state") or "")

    def send(self, body: Any) -> None:
        self.api.create(volcano.COMMAND, self.namespace, body)

    def submit(
        self,
        name: str,
        gpus: int = 0,
        replicas: int = 1,
        queue: str = "default",
        priority: str = "normal",
        container: Any = None,
        plugins: Any = None,
        policies: Any = None,
        **pod: Any,
    ) -> str:
        amounts = {"cpu": "10m", "memory": "16Mi", **({GPU: str(gpus)} if gpus else {})}
        main = {
            "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": SLEEP,
            "resources": {"requests": amounts, "limits": amounts}, **(container or {}),
        }  # fmt: skip
        spec = {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main],
            **pod,
        }  # fmt: skip
        task = {"name": "worker", "replicas": replicas, "minAvailable": replicas,
                "template": {"spec": spec}}  # fmt: skip
        body = {
            "metadata": {"name": name},
            "spec": {"schedulerName": "volcano", "queue": queue, "minAvailable": replicas,
                     "priorityClassName": priority, "maxRetry": 1000, "tasks": [task],
                     "plugins": plugins or {},
                     "policies": policies or [{"event": "PodEvicted", "action": "RestartJob"}]},
        }  # fmt: skip
        self.api.create(volcano.JOB, self.namespace, body)
        return name

    def running(self, name: str) -> None:
        self.until(lambda: self.why(name).reason == "running")

    def status(self, name: str) -> JobStatus:
        job = self.api.read(volcano.JOB, self.namespace, name)
        assert job is not None
        own = f"{volcano.VOLCANO_JOB}={name}"
        return status.status(job, self.api.list(volcano.POD, self.namespace, own), None, None, "")

    def ended(self, name: str) -> JobStatus:
        self.until(lambda: self.status(name).is_terminal)
        return self.status(name)

    def why(self, name: str, api: Api | None = None) -> Waiting:
        return explain(gather(api or self.api, self.namespace, name), time.time())

    def says(self, name: str, words: str, api: Api | None = None) -> Waiting:
        """Waits until it is said; what Kubernetes has to find out first takes it some seconds."""
        deadline = time.monotonic() + jobs.PATIENCE
        while True:
            found = self.why(name, api)
            if words in found.sentence:
                return found
            assert time.monotonic() < deadline, f"{found.sentence!r} instead of {words!r}"
            time.sleep(0.25)


def command_to_queue(api: Api, name: str, action: str) -> Any:
    queue = api.read(volcano.QUEUE, "", name)
    assert queue is not None
    target = {
        "apiVersion": volcano.QUEUE.api_version, "kind": "Queue", "name": name,
        "uid": queue["metadata"]["uid"], "controller": True,
    }  # fmt: skip
    return {"metadata": {"generateName": f"{name}-"}, "action": action, "target": target}
