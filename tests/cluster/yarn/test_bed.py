"""The test bed itself: real daemons that answer, run applications, die and come back."""

import getpass
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from testbeds.yarn import distributed_shell, ready
from testbeds.yarn.bed import Bed
from testbeds.yarn.plan import GPUS, QUEUES, Options
from yarnjobs import PATIENCE

from dromon.errors import UsageError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]


def cluster(bed: Bed, path: str) -> dict[str, Any]:
    return ready.get(f"{bed.plan.web('resourcemanager')}/ws/v1/cluster/{path}")


def eventually(claim: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    deadline = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def hdfs(bed: Bed, path: str, operation: str) -> str:
    return (
        f"{bed.plan.web('namenode')}/webhdfs/v1{path}?user.name={getpass.getuser()}&op={operation}"
    )


def logs_of(bed: Bed, application: str) -> bytes:
    """Every byte aggregated for an application; the format keeps plain text readable."""
    user = cluster(bed, f"apps/{application}")["app"]["user"]
    bucket = f"{int(application.rpartition('_')[2]) % 10000:04d}"
    folder = f"/tmp/logs/{user}/bucket-logs-tfile/{bucket}/{application}"
    content = b""
    for file in ready.get(hdfs(bed, folder, "LISTSTATUS"))["FileStatuses"]["FileStatus"]:
        with urllib.request.urlopen(hdfs(bed, f"{folder}/{file['pathSuffix']}", "OPEN")) as answer:
            content += answer.read()
    return content


def running(bed: Bed) -> list[dict[str, Any]]:
    return list((cluster(bed, "apps?states=RUNNING").get("apps") or {}).get("app") or ())


@contextmanager
def application(
    bed: Bed, command: str, containers: int = 1, **options: Any
) -> "Iterator[subprocess.Popen[str]]":
    """An application that runs meanwhile; afterwards its client is gone, and it may be not."""
    client = distributed_shell.start(bed, command, containers=containers, **options)
    try:
        yield client
    finally:
        client.kill()
        client.communicate()


def test_every_daemon_answers(bed: Bed) -> None:
    for daemon in bed.plan.daemons:
        ready.check(bed.plan, daemon)
    assert ready.bean(bed.plan, "NameNodeInfo")["Safemode"] == ""
    assert ready.bean(bed.plan, "FSNamesystemState")["NumLiveDataNodes"] == 1


def test_daemons_map_the_classes_that_were_laid_out_for_them(bed: Bed) -> None:
    """Without a word Java goes without an archive that does not fit."""
    for daemon in bed.plan.daemons:
        mapped = Path(f"/proc/{bed.processes[daemon].pid}/maps").read_text()
        assert "/classes.jsa\n" in mapped, daemon


def test_two_nodes_run_and_the_second_has_the_gpus(bed: Bed) -> None:
    found = {}
    for daemon in bed.plan.nodes:
        node = ready.node_of(bed.plan, daemon)
        assert node is not None
        assert node["state"] == "RUNNING"
        kinds = node["totalResource"]["resourceInformations"]["resourceInformation"]
        found[daemon] = {kind["name"]: int(kind["value"]) for kind in kinds}["yarn.io/gpu"]
    assert found == {"node1": 0, "node2": GPUS}


def test_queues_have_their_share_and_preemption_is_on(bed: Bed) -> None:
    scheduler = cluster(bed, "scheduler")["scheduler"]["schedulerInfo"]
    queues = scheduler["queues"]["queue"]
    assert {q["queueName"]: q["capacity"] for q in queues} == QUEUES
    assert {q["maxCapacity"] for q in queues} == {100}
    assert not any(q["preemptionDisabled"] for q in queues)


def test_a_labelled_node_is_a_partition_of_its_own_until_the_label_is_taken_away(bed: Bed) -> None:
    def partition() -> list[str]:
        node = ready.node_of(bed.plan, "node2")
        assert node is not None
        return list(node.get("nodeLabels") or ())

    assert partition() == []
    bed.label("node2", "gpu")
    try:
        assert eventually(lambda: partition() == ["gpu"])
    finally:
        bed.label("node2", "")
    assert eventually(lambda: partition() == [])


@pytest.mark.parametrize(
    ("daemon", "page", "text"),
    [
        ("namenode", "/dfshealth.html", "Namenode information"),
        ("datanode", "/datanode.html", "DataNode Information"),
        ("resourcemanager", "/cluster", "All Applications"),
        ("node1", "/node", "NodeManager information"),
    ],
)
def test_web_pages_are_there(bed: Bed, daemon: str, page: str, text: str) -> None:
    with urllib.request.urlopen(bed.plan.web(daemon) + page, timeout=30) as answer:
        assert text in answer.read().decode()


def test_an_application_runs_and_its_logs_are_aggregated(bed: Bed) -> None:
    application = distributed_shell.run(bed, "echo sum is $((40+2))", containers=2)
    assert application.succeeded, application.said

    def aggregated() -> bool:
        report = cluster(bed, f"apps/{application.id}")["app"]
        return bool(report["logAggregationStatus"] == "SUCCEEDED")

    assert eventually(aggregated)
    assert logs_of(bed, application.id).count(b"sum is 42") >= 2


def test_a_third_gpu_is_waited_for_where_there_are_two(bed: Bed, tmp_path: Path) -> None:
    asks = ("-container_resources", "memory-mb=64,vcores=1,yarn.io/gpu=1")
    hold = f"while [ ! -e {tmp_path}/go ]; do sleep 0.2; done"
    with application(bed, hold, containers=3, more=asks) as client:

        def one_waits() -> bool:
            # The master and two of the three.
            return any(
                app["runningContainers"] == 3
                and [r["numContainers"] for r in app.get("resourceRequests", ())] == [1]
                for app in running(bed)
            )

        assert eventually(one_waits)
        (tmp_path / "go").touch()
        assert client.wait(PATIENCE) == 0


def test_an_urgent_application_takes_back_the_share_of_its_queue(bed: Bed) -> None:
    # Full but for 768 MB: the urgent master fits, its containers do not.
    greedy = application(bed, "sleep 4321", 11, memory=1024, more=("-queue", "research"))
    with greedy:
        assert eventually(lambda: [a["runningContainers"] for a in running(bed)] == [12])
        urgent = distributed_shell.run(
            bed, "true", containers=4, memory=1024, more=("-queue", "urgent")
        )
        assert urgent.succeeded, urgent.said
        (robbed,) = running(bed)
        assert robbed["queue"].endswith("research")
        metrics = cluster(bed, f"apps/{robbed['id']}")["app"]
        assert metrics["numNonAMContainerPreempted"] > 0
        ready.send(
            "PUT",
            f"{bed.plan.web('resourcemanager')}/ws/v1/cluster/apps/{robbed['id']}/state",
            {"state": "KILLED"},
        )
        assert eventually(lambda: running(bed) == [])


def test_a_killed_node_comes_back_and_is_used(bed: Bed) -> None:
    bed.kill("node1")
    assert not bed.is_alive("node1")
    assert bed.is_alive("node2")
    with pytest.raises(UsageError, match="node1 is not running"):
        bed.kill("node1")
    bed.start("node1")
    node = ready.node_of(bed.plan, "node1")
    assert node is not None
    assert node["state"] == "RUNNING"
    assert distributed_shell.run(bed, "true").succeeded


def test_a_killed_resource_manager_comes_back_with_its_nodes_and_labels(bed: Bed) -> None:
    bed.kill("resourcemanager")
    bed.start("resourcemanager")
    assert {n["state"] for n in ready.nodes(bed.plan)} == {"RUNNING"}
    labels = cluster(bed, "get-node-labels")["nodeLabelInfo"]
    assert (labels[0] if isinstance(labels, list) else labels)["name"] == "gpu"


@pytest.mark.parametrize("daemon", ["namenode", "datanode"])
def test_files_outlive_a_killed_daemon(bed: Bed, daemon: str) -> None:
    path = f"/tmp/kept-over-{daemon}"
    request = urllib.request.Request(
        hdfs(bed, path, "CREATE&overwrite=true&noredirect=true"), method="PUT"
    )
    with urllib.request.urlopen(request) as answer:
        where = json.loads(answer.read())["Location"]
    with urllib.request.urlopen(urllib.request.Request(where, data=b"kept", method="PUT")):
        pass
    bed.kill(daemon)
    bed.start(daemon)

    def kept() -> bool:
        # The DataNode's first question to a restarted NameNode goes down its old connection.
        try:
            with urllib.request.urlopen(hdfs(bed, path, "OPEN")) as answer:
                return bool(answer.read() == b"kept")
        except urllib.error.HTTPError as error:
            with error:
                return False

    assert eventually(kept)


def test_up_again_changes_nothing_and_other_options_are_refused(bed: Bed) -> None:
    before = bed.processes
    bed.up(bed.plan.options)
    assert bed.processes == before
    with pytest.raises(UsageError, match="other options"):
        bed.up(Options(recovery=True))
    assert all(bed.is_alive(name) for name in bed.plan.daemons)


def test_status_tells_programs_where_everything_is(bed: Bed) -> None:
    command = [sys.executable, "-m", "testbeds.yarn", "--dir", bed.dir, "status", "-o", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["ready"]
    assert list(found["daemons"]) == bed.plan.daemons
    assert all(Path(d["log"]).stat().st_size for d in found["daemons"].values())
    site = Path(found["conf"], "core-site.xml").read_text()
    assert found["filesystem"] in site
