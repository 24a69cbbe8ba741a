"""What `dromon cluster` makes and finds, on a real Volcano with nodes that are only said to be."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jobs
import pytest
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import GPU, IMAGE

from dromon.cli.main import main
from dromon.clusters.lint import lint_volcano
from dromon.clusters.volcano import CONFIG_NAMESPACE, configuration
from dromon.engines.base import token
from dromon.engines.kubernetes import kubeconfig, volcano
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.situation import gather
from dromon.engines.kubernetes.watchdog import PATIENCE, look
from dromon.site.file import load_site

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

QUIET = 8.0  # several cycles of the scheduler
ROOM = 8  # GPUs of the bed
SITE = """\
queues:
  left: {deserved: {cpus: 32, memory: 64GiB, gpus: 4}}
  right: {deserved: {cpus: 32, memory: 64GiB, gpus: 4}}
  small: {deserved: {gpus: 1}, limit: {gpus: 2}}
priorities:
  low: 100
  normal: {value: 1000, default: true}
  high: {value: 10000, description: Deadlines only.}
"""
GOOD = configuration(load_site(SITE, "site.yaml"))
# As Volcano is installed, with preempt added to the actions.
STOCK = """\
actions: "enqueue, allocate, backfill, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
PING_PONG = GOOD.replace(
    "  - name: conformance\n    enableReclaimable: false ", "  - name: conformance\n    #"
)


class Cluster:
    """The bed, a namespace of it, and the scheduler's configuration as it stands."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.api = Api(kubeconfig.find(str(bed.kubeconfig)))
        self.namespace = f"clusters-{token()}"
        self.api.create(volcano.NAMESPACE, "", {"metadata": {"name": self.namespace}})
        jobs.is_settled(self.api, self.namespace)

    def close(self) -> None:
        for name in self.jobs():
            self.api.delete(volcano.JOB, self.namespace, name, background=False)
        self.until(lambda: not self.api.list(volcano.POD, self.namespace))
        self.api.delete(volcano.NAMESPACE, "", self.namespace)
        self.api.close()

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + jobs.PATIENCE
        while not holds():
            assert time.monotonic() < deadline, self.jobs()
            time.sleep(0.25)

    def stays(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + QUIET
        while time.monotonic() < end:
            assert holds(), self.jobs()
            time.sleep(0.5)

    def configure(self, text: str) -> str:
        """Gives the scheduler another configuration; returns what it said when it read it."""
        log = Path(self.bed.dir, "logs", "volcano-scheduler.log")
        place = Path(self.bed.plan.conf("volcano-scheduler.conf"))
        read = "Finished loading scheduler config"
        if place.read_text() == text:
            return ""
        before = len(log.read_text())
        place.write_text(text)
        self.until(lambda: read in log.read_text()[before:])
        return log.read_text()[before:]

    def submit(self, name: str, queue: str, pods: int = 1, priority: str = "normal") -> str:
        amounts = {"cpu": "1", "memory": "1Gi", GPU: "1"}
        # Volcano sums up what a job needs from its requests alone.
        asked = {"requests": amounts, "limits": amounts}
        main = {"name": "main", "image": IMAGE, "resources": asked}
        spec = {"restartPolicy": "Never", "containers": [main], "nodeSelector": {"type": "kwok"},
                "terminationGracePeriodSeconds": 0}  # fmt: skip
        task = {"name": "w", "replicas": pods, "minAvailable": pods, "template": {"spec": spec}}
        policies = [{"event": "PodEvicted", "action": "RestartJob"}]
        body = {
            "metadata": {"name": name},
            "spec": {"schedulerName": "volcano", "queue": queue, "minAvailable": pods,
                     "priorityClassName": priority, "maxRetry": 1000, "tasks": [task],
                     "policies": policies},
        }  # fmt: skip
        self.api.create(volcano.JOB, self.namespace, body)
        return name

    def jobs(self) -> dict[str, tuple[str, int]]:
        """Name -> its phase, and how often it was started again."""
        found = {}
        for job in self.api.list(volcano.JOB, self.namespace):
            status = job.get("status") or {}
            phase = str((status.get("state") or {}).get("phase") or "")
            found[job["metadata"]["name"]] = (phase, int(status.get("retryCount") or 0))
        return found

    def running(self, prefix: str) -> int:
        return sum(p == "Running" for n, (p, _) in self.jobs().items() if n.startswith(prefix))

    def evictions(self) -> int:
        return sum(count for _, count in self.jobs().values())

    def settles(self) -> None:
        """Volcano counts a restart when it is through with it."""
        self.until(lambda: {phase for phase, _ in self.jobs().values()} <= {"Running", "Pending"})


@pytest.fixture(scope="module")
def fake_bed(new_bed: Callable[..., Bed], tmp_path_factory: pytest.TempPathFactory) -> Bed:
    """A bed as its administrator sets it up: by what `render` wrote."""
    bed = new_bed(
        nodes=1, gpus_per_node=0, fake_nodes=4, fake_gpus=ROOM // 4, queues={}, priorities={},
        scheduler_conf=GOOD,
    )  # fmt: skip
    place = tmp_path_factory.mktemp("rendered")
    site = tmp_path_factory.mktemp("site") / "site.yaml"
    site.write_text(SITE)
    assert main(["cluster", "render", "volcano", str(site), "-o", str(place)]) == 0
    bed.kubectl("create", "namespace", CONFIG_NAMESPACE)
    for words in (("--dry-run=server",), ()):
        for name in ("priorities", "queues", "scheduler"):
            done = bed.kubectl("apply", *words, "-f", str(place / f"{name}.yaml"))
            assert done.returncode == 0, done.stderr
            assert "unknown field" not in done.stderr
    again = bed.kubectl("apply", "-f", str(place))
    assert again.stdout.count("unchanged") == 7, again.stdout
    return bed


@pytest.fixture
def cluster(fake_bed: Bed) -> Iterator[Cluster]:
    made = Cluster(fake_bed)

    def is_open(name: str) -> bool:
        queue: Any = made.api.read(volcano.QUEUE, "", name) or {}
        return bool((queue.get("status") or {}).get("state") == "Open")

    made.until(lambda: all(map(is_open, ("left", "right", "small"))))
    made.configure(GOOD)
    yield made
    made.close()


def named(text: str) -> set[str]:
    return {each.rule for each in lint_volcano([("v.conf", text)]) if each.severity == "error"}


def test_on_a_full_cluster_the_higher_priority_of_a_queue_runs(cluster: Cluster) -> None:
    assert named(GOOD) == set()
    cluster.submit("low", "left", pods=ROOM, priority="low")
    cluster.until(lambda: cluster.running("low") == 1)
    cluster.submit("high", "left", pods=2, priority="high")
    cluster.until(lambda: cluster.running("high") == 1)
    cluster.until(lambda: cluster.jobs()["low"][1] >= 1)


def test_as_installed_it_waits_for_ever_without_a_word_and_lint_says_so(cluster: Cluster) -> None:
    assert "never-enters" in named(STOCK)
    cluster.configure(STOCK)
    cluster.submit("low", "left", pods=ROOM, priority="low")
    cluster.until(lambda: cluster.running("low") == 1)
    cluster.submit("high", "left", pods=2, priority="high")
    cluster.until(lambda: cluster.jobs()["high"][0] == "Pending")
    cluster.stays(lambda: cluster.jobs()["high"][0] == "Pending" and cluster.evictions() == 0)
    assert not cluster.api.list(volcano.POD, cluster.namespace, "volcano.sh/job-name=high")
    # What the watchdog will find once Volcano has had its time.
    [found] = look(gather(cluster.api, cluster.namespace, "high"), time.time() + PATIENCE)
    assert found.kind == "not let in"
    assert "does not preempt" in found.sentence
    cluster.configure(GOOD)  # the remedy
    cluster.until(lambda: cluster.running("high") == 1)


def fill_and_ask_back(cluster: Cluster) -> None:
    """One queue holds everything, then the other asks for its share."""
    for number in range(ROOM):
        cluster.submit(f"a{number}", "left")
    cluster.until(lambda: cluster.running("a") == ROOM)
    for number in range(ROOM // 2):
        cluster.submit(f"b{number}", "right")


def test_a_queue_gets_its_share_back_and_then_it_is_quiet(cluster: Cluster) -> None:
    fill_and_ask_back(cluster)
    cluster.until(lambda: cluster.running("b") == ROOM // 2)
    cluster.until(lambda: cluster.running("a") == ROOM // 2)
    cluster.settles()
    taken = cluster.evictions()
    assert taken >= ROOM // 2
    cluster.stays(lambda: cluster.evictions() == taken and cluster.running("b") == ROOM // 2)


def test_with_conformance_in_front_queues_evict_each_other_and_lint_says_so(
    cluster: Cluster,
) -> None:
    assert named(PING_PONG) == {"reclaim-ping-pong"}
    cluster.configure(PING_PONG)
    fill_and_ask_back(cluster)
    cluster.until(lambda: cluster.evictions() >= 2 * ROOM)  # a quarter of it would do
    cluster.configure(GOOD)  # the remedy
    cluster.until(lambda: cluster.running("b") == ROOM // 2)
    cluster.settles()
    taken = cluster.evictions()
    cluster.stays(lambda: cluster.evictions() <= taken + 1)  # one may have been on its way


def test_a_queue_never_has_more_than_its_cap(cluster: Cluster) -> None:
    for number in range(3):
        cluster.submit(f"s{number}", "small")
    cluster.until(lambda: cluster.running("s") == 2)
    cluster.stays(lambda: cluster.running("s") == 2)


def test_an_action_that_does_not_exist_leaves_the_old_configuration_in_force(
    cluster: Cluster,
) -> None:
    text = GOOD.replace("reclaim, preempt", "reclaim, gangPreempt")
    assert "refused" in named(text)
    said = cluster.configure(text)
    assert "failed to find Action" in said
    assert "gangPreempt" not in said.rpartition("Final state")[2]
