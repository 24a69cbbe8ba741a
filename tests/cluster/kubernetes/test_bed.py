"""The test bed itself: real components that answer, run gangs, die and come back."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jobs
import pytest
from testbeds.kubernetes import api, cgroups
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.commands import LASTS
from testbeds.kubernetes.plan import GPU, IMAGE, Options, Plan

from dromon.errors import UsageError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
# Everyone serves a page, and looks at that of the other by its name.
MEET = """
import http.server, os, socket, threading, time, urllib.request
job, me = os.environ["JOB"], int(os.environ["VC_TASK_INDEX"])
server = http.server.ThreadingHTTPServer(("", 8471), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
other = f"{job}-member-{1 - me}.{job}"
for _ in range(300):
    try:
        status = urllib.request.urlopen(f"http://{other}:8471/", timeout=5).status
        print("met", other, socket.gethostbyname(other), status, flush=True)
        break
    except OSError:
        time.sleep(0.1)
time.sleep(float(os.environ["STAY"]))
"""


def eventually(claim: Callable[[], bool], seconds: float = jobs.PATIENCE) -> bool:
    deadline = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def named(stem: str) -> str:
    return f"{stem}-{uuid.uuid4().hex[:6]}"


def gang(
    name: str, replicas: int = 2, command: str = MEET, stay: float = 1, **more: Any
) -> dict[str, Any]:
    """A Volcano job; `more` goes into the specification of its pods."""
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["python3", "-I", "-c", command],
        "env": [{"name": "JOB", "value": name}, {"name": "STAY", "value": str(stay)}],
        **more.pop("container", {}),
    }
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    template = {"metadata": more.pop("metadata", {}), "spec": {**pod, **more}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "volcano",
            "queue": "default",
            "minAvailable": replicas,
            "plugins": {"env": [], "svc": ["--publish-not-ready-addresses=true"]},
            "tasks": [{"name": "member", "replicas": replicas, "template": template}],
        },
    }


def post(plan: Plan, path: str, made: dict[str, Any]) -> None:
    api.call(plan, "POST", path, json.dumps(made).encode(), "application/json")


def phase(plan: Plan, name: str) -> str:
    return str(api.get(plan, f"{JOBS}/{name}").get("status", {}).get("state", {}).get("phase"))


def pods(plan: Plan, name: str) -> list[dict[str, Any]]:
    return api.items(plan, f"{PODS}?labelSelector=volcano.sh/job-name={name}")


def apart(name: str) -> dict[str, Any]:
    """No two pods of the job on one node."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"volcano.sh/job-name": name}},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def completes(plan: Plan, stem: str = "small") -> bool:
    name = named(stem)
    post(plan, JOBS, gang(name, 1, "print('done')"))
    return eventually(lambda: phase(plan, name) == "Completed")


def leftovers(plan: Plan) -> list[str]:
    """What a bed that is down must not have left on this machine."""
    found = [f"process {pid}" for pid in cgroups.processes(plan)]
    found += [str(p) for p in Path("/sys/fs/cgroup").glob(f"*/{plan.name}")]
    found += [str(p) for p in Path("/sys/fs/cgroup").glob(plan.name)]
    found += [str(p) for p in Path("/sys/class/net").glob(plan.name)]
    mounts = Path("/proc/mounts").read_text().splitlines()
    found += [line for line in mounts if plan.name in line or plan.dir in line]
    needle = os.fsencode(plan.dir)
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = Path(entry.path, "cmdline").read_bytes()
            except OSError:  # ended meanwhile
                continue
            if needle in command:
                found.append(command.replace(b"\0", b" ").decode())
    return found


def works(bed: Bed, component: str) -> bool:
    """A node that has much to do may be said to be gone for a moment."""
    try:
        bed.check(component)
    except api.NotYet:
        return False
    return True


def test_every_component_answers(bed: Bed) -> None:
    for component in bed.plan.components:
        assert eventually(lambda component=component: works(bed, component)), component


def test_a_gang_meets_by_name_across_nodes_and_completes(bed: Bed) -> None:
    name = named("gang")
    post(bed.plan, JOBS, gang(name, affinity=apart(name)))
    assert eventually(lambda: phase(bed.plan, name) == "Completed"), bed.kubectl("get", "events")
    members = pods(bed.plan, name)
    assert {pod["spec"]["nodeName"] for pod in members} == {"node1", "node2"}
    for pod in members:
        said = bed.kubectl("logs", pod["metadata"]["name"]).stdout
        assert re.search(rf"^met {name}-member-[01]\.{name} \S+ 200$", said, re.MULTILINE), said


def test_the_admission_webhook_fills_in_and_refuses(bed: Bed) -> None:
    name = named("filled")
    made = gang(name, 1, "pass")
    del made["spec"]["schedulerName"]
    del made["spec"]["minAvailable"]
    post(bed.plan, JOBS, made)
    spec = api.get(bed.plan, f"{JOBS}/{name}")["spec"]
    assert (spec["schedulerName"], spec["minAvailable"]) == ("volcano", 1)
    made = gang(named("refused"), 2, "pass")
    made["spec"]["minAvailable"] = 3
    with pytest.raises(api.NotYet, match="minAvailable"):
        post(bed.plan, JOBS, made)


def test_a_plain_pod_needs_no_volcano(bed: Bed) -> None:
    name = named("plain")
    container = {"name": "main", "image": IMAGE, "command": ["bash", "-c", "echo $BASH_VERSION"]}
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    post(bed.plan, PODS, made)
    path = f"{PODS}/{name}"
    assert eventually(lambda: api.get(bed.plan, path)["status"]["phase"] == "Succeeded")
    assert bed.kubectl("logs", name).stdout.startswith("5.")


def test_the_api_server_leads_to_a_port_of_a_pod(bed: Bed) -> None:
    name = named("page")
    post(bed.plan, JOBS, gang(name, stay=60, affinity=apart(name)))

    def answers(member: int) -> bool:
        try:
            path = f"{PODS}/{name}-member-{member}:8471/proxy/"
            return b"Directory listing" in api.call(bed.plan, "GET", path)
        except api.NotYet:
            return False

    assert eventually(lambda: answers(0))
    assert eventually(lambda: answers(1))
    api.call(bed.plan, "DELETE", f"{JOBS}/{name}")


def test_pods_and_this_machine_share_a_directory(bed: Bed) -> None:
    name = named("shared")
    Path(bed.shared, f"{name}.in").write_text("40")
    command = (
        f"from pathlib import Path; n = int(Path('/store/{name}.in').read_text()); "
        f"Path('/store/{name}.out').write_text(str(n + 2))"
    )
    post(
        bed.plan,
        JOBS,
        gang(
            name,
            1,
            command,
            container={"volumeMounts": [{"name": "store", "mountPath": "/store"}]},
            volumes=[{"name": "store", "hostPath": {"path": bed.shared}}],
        ),
    )
    assert eventually(lambda: phase(bed.plan, name) == "Completed")
    assert Path(bed.shared, f"{name}.out").read_text() == "42"


def test_pods_reach_the_api_server_as_their_service_account(bed: Bed) -> None:
    name = named("inside")
    command = """
import os, ssl, urllib.request
place = "/var/run/secrets/kubernetes.io/serviceaccount"
context = ssl.create_default_context(cafile=f"{place}/ca.crt")
host = os.environ["KUBERNETES_SERVICE_HOST"]
request = urllib.request.Request(f"https://{host}:443/version")
request.add_header("Authorization", "Bearer " + open(f"{place}/token").read())
print(urllib.request.urlopen(request, context=context).read().decode())
"""
    post(bed.plan, JOBS, gang(name, 1, command))
    assert eventually(lambda: phase(bed.plan, name) == "Completed")
    assert "gitVersion" in bed.kubectl("logs", f"{name}-member-0").stdout


def test_an_image_is_the_python_image_and_a_directory(bed: Bed, tmp_path: Path) -> None:
    (tmp_path / "ours.py").write_text("ANSWER = 42\n")
    bed.import_image(tmp_path, "dromon.test/ours:1", at="/usr/lib/python3/dist-packages")
    name = named("image")
    command = "import ours; print(ours.ANSWER)"
    post(bed.plan, JOBS, gang(name, 1, command, container={"image": "dromon.test/ours:1"}))
    assert eventually(lambda: phase(bed.plan, name) == "Completed")
    assert bed.kubectl("logs", f"{name}-member-0").stdout == "42\n"


def test_gpus_are_a_number_that_counts(bed: Bed) -> None:
    for node in bed.plan.nodes:
        room = api.get(bed.plan, f"/api/v1/nodes/{node}")["status"]["allocatable"]
        assert room[GPU] == str(bed.plan.options.gpus_per_node)
    name = named("greedy")
    asks = {"resources": {"limits": {GPU: "3"}}}
    post(bed.plan, JOBS, gang(name, 1, "pass", container=asks))

    def explained() -> bool:
        groups = api.items(
            bed.plan, "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
        )
        return any(
            f"Insufficient {GPU}" in condition.get("message", "")
            for group in groups
            if group["metadata"]["name"].startswith(name)
            for condition in group.get("status", {}).get("conditions", ())
        )

    assert eventually(explained)
    api.call(bed.plan, "DELETE", f"{JOBS}/{name}")


def test_queues_and_priorities_are_those_of_the_options(bed: Bed) -> None:
    queues = api.items(bed.plan, "/apis/scheduling.volcano.sh/v1beta1/queues")
    assert {q["metadata"]["name"] for q in queues} == {"root", "default", *bed.plan.options.queues}
    classes = api.items(bed.plan, "/apis/scheduling.k8s.io/v1/priorityclasses")
    values = {c["metadata"]["name"]: c["value"] for c in classes}
    assert values.items() >= bed.plan.options.priorities.items()


@pytest.mark.parametrize("user", ["alice", "alice-token"])
def test_alice_may_work_in_her_namespace_and_read_the_cluster(bed: Bed, user: str) -> None:
    def may(verb: str, what: str, *more: str) -> bool:
        return bed.kubectl("auth", "can-i", verb, what, *more, user=user).stdout.strip() == "yes"

    for verb, what in (
        ("create", "jobs.batch.volcano.sh"),
        ("delete", "jobs.batch.volcano.sh"),
        ("create", "commands.bus.volcano.sh"),
        ("watch", "pods"),
        ("create", "configmaps"),
        ("create", "secrets"),
        ("list", "podgroups.scheduling.volcano.sh"),
        ("list", "queues.scheduling.volcano.sh"),
        ("list", "priorityclasses.scheduling.k8s.io"),
        ("list", "nodes"),
    ):
        assert may(verb, what), (verb, what)
    assert may("get", "pods", "--subresource=log")
    assert may("get", "pods", "--subresource=proxy")
    assert not may("create", "queues.scheduling.volcano.sh")
    assert not may("create", "pods", "--namespace=kube-system")
    assert not may("delete", "nodes")


def test_bob_may_do_nothing_and_nobody_else_may_come_in(bed: Bed) -> None:
    done = bed.kubectl("get", "pods", user="bob")
    assert done.returncode
    assert "forbidden" in done.stderr
    done = bed.kubectl("--token=somebody", "get", "pods", user="bob")
    assert done.returncode
    assert "Unauthorized" in done.stderr or "logged in" in done.stderr


@pytest.mark.parametrize(
    "component",
    [
        "etcd",
        "apiserver",
        "controller-manager",
        "scheduler",
        "dns",
        "volcano-scheduler",
        "volcano-controllers",
        "volcano-admission",
        "containerd1",
        "node1",
    ],
)
def test_a_killed_component_comes_back_and_gangs_run(bed: Bed, component: str) -> None:
    before = bed.processes
    bed.kill(component)
    assert not bed.is_alive(component)
    with pytest.raises(UsageError, match=f"{component} is not running"):
        bed.kill(component)
    bed.start(component)
    assert eventually(lambda: works(bed, component))
    after = bed.processes
    assert {name for name in after if after[name] != before.get(name)} == {component}
    name = named("after")

    def is_taken() -> bool:
        """The API server may hold a line to the webhooks that were killed."""
        try:
            post(bed.plan, JOBS, gang(name, affinity=apart(name)))
        except api.NotYet:
            return False
        return True

    assert eventually(is_taken)
    assert eventually(lambda: phase(bed.plan, name) == "Completed")


def test_pods_run_on_while_their_kubelet_and_containerd_are_dead(bed: Bed) -> None:
    name = named("survivor")
    command = "import time; print('begin', flush=True); time.sleep(15); print('end')"
    post(bed.plan, JOBS, gang(name, 1, command, nodeName="node2"))
    path = f"{PODS}/{name}-member-0"
    assert eventually(lambda: phase(bed.plan, name) == "Running")
    bed.kill("node2", signal.SIGTERM)
    bed.kill("containerd2", signal.SIGTERM)
    bed.start("containerd2")
    bed.start("node2")
    assert eventually(lambda: phase(bed.plan, name) == "Completed")
    status = api.get(bed.plan, path)["status"]
    assert [c["restartCount"] for c in status["containerStatuses"]] == [0]
    assert bed.kubectl("logs", f"{name}-member-0").stdout == "begin\nend\n"


def test_a_crashed_node_boots_and_has_lost_its_pods(bed: Bed) -> None:
    name = named("victim")
    made = gang(name, 1, "import time; time.sleep(4321)", nodeName="node2")
    made["spec"]["policies"] = [{"event": "PodFailed", "action": "RestartJob"}]
    post(bed.plan, JOBS, made)
    assert eventually(lambda: phase(bed.plan, name) == "Running")
    (before,) = pods(bed.plan, name)
    bed.crash("node2")
    assert not bed.is_alive("node2")
    assert not bed.is_alive("containerd2")
    assert cgroups.processes(bed.plan, "node2") == []
    assert bed.is_alive("node1")
    bed.start("containerd2")
    bed.start("node2")

    def runs_anew() -> bool:
        return any(
            pod["metadata"]["uid"] != before["metadata"]["uid"]
            and pod["status"]["phase"] == "Running"
            for pod in pods(bed.plan, name)
        )

    assert eventually(runs_anew)
    api.call(bed.plan, "DELETE", f"{JOBS}/{name}")


def test_up_again_changes_nothing_and_other_options_are_refused(bed: Bed) -> None:
    before = bed.processes
    bed.up(Options())
    assert bed.processes == before
    with pytest.raises(UsageError, match="other options"):
        bed.up(Options(expiry=5))
    assert all(bed.is_alive(name) for name in bed.plan.components)


def test_status_tells_programs_where_everything_is(bed: Bed) -> None:
    words = ["-m", "testbeds.kubernetes", "--dir", bed.dir, "status", "-o", "json"]
    found: dict[str, Any] = {}

    def ready() -> bool:
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        found.update(json.loads(done.stdout))
        return done.returncode == 0 and bool(found["ready"])

    assert eventually(ready), found
    assert list(found["components"]) == bed.plan.components
    assert all(Path(c["log"]).exists() for c in found["components"].values())
    assert (
        json.loads(Path(found["kubeconfig"]).read_text())["clusters"][0]["cluster"]["server"]
        == (found["server"])
    )


def test_a_second_bed_with_fake_nodes_leaves_nothing_when_it_goes(
    new_bed: Callable[..., Bed], bed: Bed
) -> None:
    second = new_bed(nodes=1, fake_nodes=20, fake_gpus=8, expiry=15)
    plan = second.plan
    assert plan.block != bed.plan.block

    # Too large for real nodes; every fake one has eight.
    name = named("wide")
    asks = {"resources": {"limits": {GPU: "8"}}}
    lasting = {"annotations": {LASTS: "2s"}}
    post(plan, JOBS, gang(name, 20, "pass", container=asks, metadata=lasting))
    assert eventually(lambda: phase(plan, name) == "Completed")
    assert {pod["spec"]["nodeName"] for pod in pods(plan, name)} == {
        f"fake{n}" for n in range(1, 21)
    }

    # A pod on the real node, whose kubelet is lost: the node is given up, and the pod with it.
    name = named("lost")
    post(plan, JOBS, gang(name, 1, "import time; time.sleep(4321)", nodeName="node1"))
    assert eventually(lambda: phase(plan, name) == "Running")
    second.kill("node1")
    assert eventually(
        lambda: any("deletionTimestamp" in pod["metadata"] for pod in pods(plan, name))
    )
    assert b"4321" in b"".join(
        Path(f"/proc/{pid}/cmdline").read_bytes() for pid in cgroups.processes(plan, "node1")
    ), "a killed kubelet leaves its containers running"

    def all_heard_of() -> bool:
        nodes = api.items(plan, "/api/v1/nodes?labelSelector=type=kwok")
        return not any(node["spec"].get("taints") for node in nodes)

    assert eventually(all_heard_of), "fake nodes are heard of"

    second.down()
    assert leftovers(plan) == []
    assert not os.path.exists(plan.data("etcd"))
    assert all(bed.is_alive(name) for name in bed.plan.components)
    assert completes(bed.plan)


def test_down_finds_everything_of_an_up_that_was_killed(built: None, tmp_path: Path) -> None:
    directory = str(tmp_path / "bed")
    words = [sys.executable, "-m", "testbeds.kubernetes", "--dir", directory]
    with subprocess.Popen([*words, "up", "--nodes", "1"], cwd=ROOT, stderr=subprocess.PIPE) as up:
        bed = Bed(directory)
        assert eventually(lambda: bed.exists and "containerd1" in bed.processes)
        up.kill()
    plan = bed.plan
    assert leftovers(plan) != []
    subprocess.run([*words, "down"], cwd=ROOT, check=True)
    assert leftovers(plan) == []
