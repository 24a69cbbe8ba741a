"""`python -m benchmarks.kubernetes [NAME…]`: what a job on Kubernetes costs, on a bed of its own.

The bed itself; from submit to pods on nodes, beside `kubectl apply` of the same Volcano Job;
compiling; watching ten thousand pods, `ps` beside `kubectl get` of their jobs; requests to the API
server. API server, scheduler and Volcano are real. Where only they matter, the nodes are fake: no
container is part of what is measured. The ten thousand pods are made by this program in place of
Volcano's controllers, which would take long over it.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from testbeds.kubernetes import images
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import IMAGE, Options

from benchmarks.measure import ROUNDS, Bar, side_by_side, timed
from dromon.contexts.file import Context
from dromon.engines.base import Filter, token
from dromon.engines.kubernetes.carriers import request_map
from dromon.engines.kubernetes.engine import KubernetesEngine
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.volcano import CONFIG_MAP, JOB, JOB_LABEL, POD
from dromon.engines.kubernetes.watch import Following, Watch

MEMBERS = 1000
GANG = 2
JOBS = int(os.environ.get("DROMON_BENCH_JOBS", "500"))
EACH = 20  # pods of each
FAKE_NODES = 100
IDLE = 60.0  # seconds
WRITERS = 8
ON_FAKE = {"pod": {"nodeSelector": {"type": "kwok"}, "terminationGracePeriodSeconds": 0}}
ON_REAL = {"pod": {"nodeSelector": {"kubernetes.io/hostname": "node1"}}}
SMALL = {"cpus": 0.1, "memory": "32MiB"}
# A client that lists all jobs every two seconds, as `dromon watch` does; tells what it costs.
WATCHER = """
import json, os, sys, time
from dromon.contexts.file import Context
from dromon.engines.base import Filter
from dromon.engines.kubernetes.engine import KubernetesEngine
engine = KubernetesEngine(Context(**json.loads(sys.argv[1])), sys.argv[2])
def look(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = engine.list(Filter(active_only=False))
        time.sleep(2)
    return len(found)
look(14)
before, began = time.process_time(), time.monotonic()
count = look(float(sys.argv[3]))
share = 100 * (time.process_time() - before) / (time.monotonic() - began)
with open("/proc/self/status") as file:
    peak = int(next(line for line in file if line.startswith("VmHWM")).split()[1]) / 1024
print(json.dumps({"jobs": count, "share": share, "peak": peak, "requests": engine.api.requests}))
"""


class Place:
    """The bed, a client of it, and a directory to submit from."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.work = self.folder / "work"
        self.work.mkdir()
        self.bed = Bed(f"{folder}/bed", tell=print)
        images.archives(print)  # whatever is made once is made by now
        began = time.perf_counter()
        self.bed.up(Options(fake_nodes=FAKE_NODES))
        self.up_took = time.perf_counter() - began
        self.context = Context(
            "bed", "kubernetes", self.bed.kubeconfig, image=IMAGE, pull="Never",
            store=self.bed.shared,
        )  # fmt: skip
        self.engine = KubernetesEngine(self.context, f"{folder}/home")
        self.config = self.folder / "config"
        self.config.mkdir()
        kept = {"contexts": {"bed": self.context.to_data()}}
        (self.config / "contexts.json").write_text(json.dumps(kept))

    def close(self) -> None:
        self.engine.close()
        self.bed.down()

    @property
    def environ(self) -> dict[str, str]:
        return {
            **os.environ, "DROMON_HOME": f"{self.folder}/home", "DROMON_CONFIG": str(self.config),
        }  # fmt: skip

    def request(self, **job: Any) -> dict[str, Any]:
        data = {"name": "job", "resources": SMALL, "command": "true", **job}
        return {"cwd": str(self.work), "environ": dict(os.environ), "data": data}

    def submit(self, **job: Any) -> str:
        return str(self.engine.start(self.request(**job))["id"])

    def clear(self) -> None:
        """Away with all jobs, and wait until they are gone."""
        for job in self.engine.jobs.all():
            self.engine.api.delete(JOB, self.engine.namespace, job["metadata"]["name"])
        while self.engine.jobs.all() or self.engine.api.list(POD, self.engine.namespace):
            time.sleep(0.5)


class Scheduled:
    """Hears when pods are put on nodes."""

    def __init__(self, api: Api, namespace: str) -> None:
        pods = Watch(api, POD, namespace)
        pods.load()
        self._following = Following(pods)

    def wait(self, name: str, count: int) -> None:
        """Until so many pods of a job have a node."""
        placed: set[str] = set()
        deadline = time.monotonic() + 120
        while len(placed) < count:
            heard = self._following.next(1.0)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the pods of {name} were not placed")
            if heard is not None:
                pod = heard[1].object
                if pod["metadata"]["name"].startswith(f"{name}-") and pod["spec"].get("nodeName"):
                    placed.add(pod["metadata"]["name"])

    def close(self) -> None:
        self._following.close()


def bringing_up(place: Place) -> Iterator[Bar]:
    yield Bar("test bed up, once built", place.up_took, 60.0, "s")


# ---- submitting ---------------------------------------------------------------------------------


def submitting(place: Place) -> Iterator[Bar]:
    engine = place.engine
    scheduled = Scheduled(engine.api, engine.namespace)
    job: dict[str, Any] = {
        "replicas": GANG, "kubernetes": ON_FAKE, "environment": {"image": IMAGE},
    }  # fmt: skip
    pattern = engine.compile(engine.intake.take(_taken(place, **job)).launch).request["objects"][0]
    text = json.dumps(pattern)
    kubectl = shutil.which("kubectl")
    command = [kubectl] if kubectl else []
    steps: dict[str, list[float]] = {}

    def ends(name: str, began: float) -> float:
        scheduled.wait(name, GANG)
        took = time.perf_counter() - began
        engine.api.delete(JOB, engine.namespace, name)
        return took

    def by_kubectl() -> float:
        name = f"plain-{token()}"
        file = place.folder / "job.json"
        file.write_text(text.replace(pattern["metadata"]["name"], name))
        began = time.perf_counter()
        if command:
            words = [*command, f"--kubeconfig={place.bed.kubeconfig}", "apply", "-f", str(file)]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        else:
            done = place.bed.kubectl("apply", "-f", str(file))
            assert done.returncode == 0, done.stderr
        steps.setdefault("kubectl returns", []).append(time.perf_counter() - began)
        return ends(name, began)

    def by_engine() -> float:
        began = time.perf_counter()
        name = place.submit(**job)
        steps.setdefault("API returns", []).append(time.perf_counter() - began)
        return ends(name, began)

    file = place.work / "job.yaml"
    file.write_text(json.dumps({"name": "job", "resources": SMALL, "command": "true", **job}))
    program = [str(Path(sys.executable).with_name("dromon"))]

    def by_command() -> float:
        began = time.perf_counter()
        done = subprocess.run(
            [*program, "run", "-d", "job.yaml", "--on", "bed"], cwd=place.work, env=place.environ,
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        steps.setdefault("CLI returns", []).append(time.perf_counter() - began)
        return ends(done.stdout.split()[0], began)

    found = side_by_side({"kubectl": by_kubectl, "API": by_engine, "CLI": by_command}, ROUNDS)
    scheduled.close()
    shown: dict[str, Any] = {**found, **{k: statistics.median(v) for k, v in steps.items()}}
    yield Bar("submit to pods on nodes, warm API", found["API"] - found["kubectl"], 0.15,
              "s + kubectl", detail=shown)  # fmt: skip
    yield Bar("submit to pods on nodes, CLI", found["CLI"] - found["kubectl"], 0.4, "s + kubectl")
    place.clear()


def _taken(place: Place, **job: Any) -> Any:
    from dromon.engines.intake import Request

    return Request.from_json(place.request(**job))


def fetching(place: Place) -> Iterator[Bar]:
    """What an environment that is shipped adds: the init container, on a real node."""
    image = {"environment": {"image": IMAGE}}
    shipped = {"environment": {"packages": ["attrs"]}}
    engine = place.engine

    def first_line(**job: Any) -> float:
        began = time.time()
        command = "python3 -c 'import time; print(time.time())'"
        # A core each, as those have who train: a tenth of one takes ten times as long to unpack.
        asked = {"cpus": 1, "memory": "256MiB"}
        ref = place.submit(command=command, kubernetes=ON_REAL, resources=asked, **job)
        engine.wait(ref)
        [line] = [line.text for line in engine.logs(ref, follow=False)]
        engine.remove([ref])
        return float(line) - began

    found = side_by_side(
        {"image": lambda: first_line(**image), "shipped": lambda: first_line(**shipped)}, 7
    )
    added = found["shipped"] - found["image"]
    print(f"       an init container adds {added:.2f} s to the {found['image']:.2f} s from submit "
          "to the first line of user code", flush=True)  # fmt: skip
    yield from ()


# ---- compiling, requests ------------------------------------------------------------------------


def compiling(place: Place) -> Iterator[Bar]:
    launch = place.engine.intake.take(_taken(place, replicas=MEMBERS)).launch
    place.engine.compile(launch)
    found = side_by_side({"compile": timed(lambda: place.engine.compile(launch))}, ROUNDS)
    yield Bar(f"compile, {MEMBERS} members", 1e3 * found["compile"], 50.0, "ms")


def requests(place: Place) -> Iterator[Bar]:
    """Of a client that knows nothing of the cluster yet: submit, wait, all lines."""
    counts = {}
    for name, store in (("with a store", place.bed.shared), ("without", "")):
        context = place.context._replace(store=store)
        engine = KubernetesEngine(context, f"{place.folder}/home")
        job = {"replicas": GANG, "command": "sleep 20; echo done", "kubernetes": ON_REAL}
        ref = str(engine.start(place.request(**job))["id"])
        engine.wait(ref)
        assert [line.text for line in engine.logs(ref, follow=False)] == ["done"] * GANG
        counts[name] = float(engine.api.requests)
        print(f"       {name}: {engine.api.verbs}", flush=True)
        engine.remove([ref])
        engine.close()
    yield Bar("requests to the API server, submit to end", counts["with a store"], 12.0, "requests",
              detail=counts)  # fmt: skip


# ---- very many ----------------------------------------------------------------------------------


def watching(place: Place) -> Iterator[Bar]:
    for component in ("volcano-controllers", "volcano-scheduler"):
        place.bed.kill(component)
    began = time.perf_counter()
    fill(place)
    print(f"       {JOBS} jobs of {EACH} pods made in {time.perf_counter() - began:.0f} s",
          flush=True)  # fmt: skip
    asked = json.dumps(place.context._asdict())
    done = subprocess.run(
        [sys.executable, "-c", WATCHER, asked, f"{place.folder}/home", str(IDLE)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    told = json.loads(done.stdout)
    assert told["jobs"] == JOBS, told
    what = f"watching {JOBS * EACH:,} pods of {JOBS} jobs"
    yield Bar(f"{what}, peak", told["peak"], 200.0, "MB", detail={"requests": told["requests"]})
    yield Bar(f"{what}, idle", told["share"], 5.0, "% of a core")
    program = [str(Path(sys.executable).with_name("dromon")), "ps", "--on", "bed"]

    def listed() -> None:
        done = subprocess.run(program, env=place.environ, check=True, capture_output=True)
        assert done.stdout.count(b"\n") >= JOBS

    def by_kubectl() -> None:
        done = place.bed.kubectl("get", "vcjob", "-l", JOB_LABEL)
        assert done.stdout.count("\n") >= JOBS, done.stderr

    found = side_by_side(
        {
            "ps": timed(listed), "in one process": timed(lambda: _list_once(place)),
            "kubectl get": timed(by_kubectl),
        }, ROUNDS,
    )  # fmt: skip
    yield Bar(f"ps of {JOBS} jobs with {JOBS * EACH:,} pods", found["ps"], 0.5, "s", detail=found)


def _list_once(place: Place) -> None:
    engine = KubernetesEngine(place.context, f"{place.folder}/home")
    assert len(engine.list(Filter())) == JOBS
    engine.close()


def fill(place: Place) -> None:
    """Jobs as we compile them and pods as Volcano makes them; fake nodes have them run."""
    engine = place.engine
    job = {"replicas": EACH, "kubernetes": ON_FAKE, "environment": {"image": IMAGE}}
    submission = engine.compile(engine.intake.take(_taken(place, **job)).launch)
    text, id = json.dumps(submission.request), submission.id
    numbers = iter(range(JOBS))
    lock = threading.Lock()
    failures: list[BaseException] = []

    def write() -> None:
        with Api(engine.access) as api:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None or failures:
                    return
                try:
                    request = json.loads(text.replace(id, f"job{number:04d}-aaaaaa"))
                    _make(api, request, number)
                except BaseException as error:
                    failures.append(error)

    threads = [threading.Thread(target=write) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    engine.api.list(POD, engine.namespace, labels=JOB_LABEL, limit=1)
    while not _all_run(engine):
        time.sleep(2)


def _all_run(engine: KubernetesEngine) -> bool:
    fields = "status.phase!=Running"
    return not engine.api.list(POD, engine.namespace, labels=JOB_LABEL, fields=fields)


def _make(api: Api, request: Mapping[str, Any], number: int) -> None:
    body, namespace = request["objects"][0], str(request["namespace"])
    id = str(body["metadata"]["name"])
    api.create(CONFIG_MAP, namespace, request_map(id, request))
    made = api.create(JOB, namespace, body)
    [task] = body["spec"]["tasks"]
    owner = {
        "apiVersion": JOB.api_version, "kind": JOB.name, "name": id, "controller": True,
        "uid": made["metadata"]["uid"], "blockOwnerDeletion": True,
    }  # fmt: skip
    for index in range(EACH):
        noted = {
            "volcano.sh/job-name": id, "volcano.sh/job-version": "0", "volcano.sh/task-spec":
            task["name"], "volcano.sh/task-index": str(index), "volcano.sh/queue-name": "default",
        }  # fmt: skip
        template = task["template"]["metadata"]
        about = {
            "name": f"{id}-{task['name']}-{index}", "labels": {**template["labels"], **noted},
            "annotations": {**template.get("annotations", {}), **noted,
                            "scheduling.k8s.io/group-name": f"{id}-{made['metadata']['uid']}"},
            "ownerReferences": [owner],
        }  # fmt: skip
        node = f"fake{(number * EACH + index) % FAKE_NODES + 1}"
        spec = {**task["template"]["spec"], "nodeName": node, "schedulerName": "volcano"}
        api.create(POD, namespace, {"metadata": about, "spec": spec})
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    status = {
        "minAvailable": EACH, "running": EACH, "version": 1,
        "state": {"phase": "Running", "lastTransitionTime": now},
        "conditions": [{"status": "Running", "lastTransitionTime": now}],
        "taskStatusCount": {task["name"]: {"phase": {"Running": EACH}}},
    }  # fmt: skip
    api.patch(JOB, namespace, id, {"status": status}, part="status")


ALL: tuple[Callable[[Place], Iterator[Bar]], ...] = (
    bringing_up, compiling, requests, submitting, fetching, watching,
)  # fmt: skip


def main() -> int:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    folder = tempfile.mkdtemp(prefix="dromon-bench-", dir="/tmp")
    bars, place = [], None
    try:
        place = Place(folder)
        for measure in ALL:
            if sys.argv[1:] and measure.__name__ not in sys.argv[1:]:
                continue
            for bar in measure(place):
                print(bar.line(), flush=True)
                bars.append(bar)
    finally:
        if place is not None:
            place.close()
        else:
            Bed(f"{folder}/bed").down()
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(bar.is_met for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
