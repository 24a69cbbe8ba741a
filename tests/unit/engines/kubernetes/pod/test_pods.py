"""Whole jobs in pods without a cluster: real agents, the real coordinator, real exit codes."""

import json
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.unit.agent.gate import Gate
from tests.unit.engines.kubernetes.pod.stage import KEY, Stage

from dromon.coordinator.proof import HEADER, proof


@pytest.fixture
def stage(tmp_path):
    made = []

    def make(command, has_store=True, replicas=1, **job):
        roles = job.pop("roles", {"worker": {"replicas": replicas, "command": command}})
        made.append(Stage(tmp_path, has_store, roles=roles, **job))
        return made[-1]

    yield make
    for one in made:
        one.close()


def ask(stage, method, path, body=b"", key=KEY):
    url = f"http://127.0.0.1:{stage.ports[1]}{path}"
    headers = {HEADER: proof(key.encode(), method, path, body, time.time())}
    request = urllib.request.Request(url, data=body or None, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


def test_a_gang_that_succeeds_ends_every_pod_with_0(stage):
    job = stage('echo "hi $DROMON_RANK of $DROMON_WORLD_SIZE"', replicas=2)
    job.start()
    assert job.codes() == {"worker-0": 0, "worker-1": 0}
    assert job.printed["worker-1"].read_text() == "hi 1 of 2\n"
    assert job.status()["state"] == "succeeded"
    assert job.last_words("worker-0")["verdict"]["cause"] == "success"
    assert job.last_words("worker-1")["exit"]["code"] == 0


def test_a_gang_that_fails_for_good_ends_the_first_pod_with_the_reserved_code(stage):
    job = stage('[ "$DROMON_RANK" = 0 ] && sleep 30; exit 7', replicas=2)
    job.start()
    assert job.codes() == {"worker-0": 201, "worker-1": 0}
    verdict = job.last_words("worker-0")["verdict"]
    assert (verdict["member"], verdict["code"]) == ("worker-1", 7)


def test_a_member_that_fails_is_started_again_in_its_pod(stage):
    job = stage('[ "$DROMON_RUN" = 1 ] && exit 3; echo again', retries={"max": 1, "backoff": 0})
    job.start()
    assert job.codes() == {"worker-0": 0}
    assert job.status()["attempt"] == 2
    assert job.printed["worker-0"].read_text() == "-- dromon: run 2\nagain\n"


def test_the_deadline_ends_it_with_a_code_of_its_own(stage):
    job = stage("sleep 60", max_duration=0.5, stop_grace=1)
    job.start()
    assert job.code("worker-0") == 202


def test_a_stop_through_the_page_keeps_the_grace_and_has_a_code_of_its_own(stage):
    job = stage('trap "echo saved; exit 0" TERM; echo up; while :; do sleep 0.05; done')
    job.start()
    job.until(lambda: "up" in job.printed["worker-0"].read_text())
    assert ask(job, "POST", "/stop", json.dumps({"by": "ann", "grace": 5}).encode()) == {}
    assert job.code("worker-0") == 203
    assert "saved" in job.printed["worker-0"].read_text()


def test_the_page_wants_the_key(stage):
    job = stage("sleep 60")
    job.start()
    job.until(lambda: job.status().get("state") == "running")
    assert ask(job, "GET", "/status.json")["state"] == "running"
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(job, "GET", "/status.json", key="x" * 64)
    assert refused.value.code == 403
    refused.value.close()


def test_a_pod_that_is_told_to_end_ends_with_143_and_its_member_has_its_grace(stage):
    job = stage('trap "echo saved; exit 0" TERM; echo up; while :; do sleep 0.05; done')
    job.start()
    job.until(lambda: "up" in job.printed["worker-0"].read_text())
    job.pods["worker-0"].send_signal(signal.SIGTERM)
    assert job.code("worker-0") == 143
    said = job.printed["worker-0"].read_text().splitlines()
    # The shell may say of its own child that it was terminated, before or after.
    assert [line for line in said if "erminated" not in line] == ["up", "saved"]


def test_new_pods_go_on_where_the_old_ones_were_and_no_retry_is_used(stage):
    job = stage(
        'echo . >> $DROMON_CHECKPOINT_DIR/tries; echo up; [ "$DROMON_RUN" = 1 ] && sleep 60; true',
        replicas=2,
    )
    job.start()
    job.until(lambda: all("up" in path.read_text() for path in job.printed.values()))
    for member in job.pods:
        job.kill(member)
    job.start()
    assert job.codes() == {"worker-0": 0, "worker-1": 0}
    status = job.status()
    assert (status["attempt"], status["retries_used"]) == (2, 0)
    assert Path(job.home.checkpoints, "tries").read_text() == ".\n" * 4


def test_a_job_that_was_over_sends_new_pods_away(stage):
    job = stage("echo once", replicas=2)
    job.start()
    assert job.codes() == {"worker-0": 0, "worker-1": 0}
    job.start()
    assert job.codes() == {"worker-0": 0, "worker-1": 0}
    assert all(path.read_text() == "" for path in job.printed.values())  # nothing ran again


def test_outputs_of_each_member_are_kept_in_the_store(stage):
    job = stage("echo $DROMON_RANK > out-$DROMON_RANK", replicas=2, outputs=["out-0", "out-1"])
    job.start()
    assert job.codes() == {"worker-0": 0, "worker-1": 0}
    for rank in "01":
        assert Path(job.home.path("outputs", f"out-{rank}")).read_text() == f"{rank}\n"
    assert {o["path"] for o in job.status()["outputs"]} == {"out-0", "out-1"}


def test_without_a_store_the_pods_tell_all_the_same(stage):
    job = stage("echo hi; exit 4", has_store=False)
    job.start()
    assert job.code("worker-0") == 201
    said = job.last_words("worker-0")
    assert (said["verdict"]["code"], said["exit"]["last_lines"]) == (4, ["hi"])


def test_a_coordinator_that_another_one_has_followed_renews_no_lease(stage):
    job = stage("sleep 60")
    job.start()
    job.until(lambda: job.status().get("state") == "running")
    Path(job.home.path("coordinator.json")).write_text('{"epoch": 99}')
    assert job.code("worker-0") == 143


def test_one_that_nobody_can_come_for_any_more_does_not_seem_to_have_succeeded(stage):
    job = stage("sleep 600", replicas=2, stop_grace=1)
    job.start()
    job.until(lambda: job.status().get("state") == "running")
    job.kill("worker-0")
    Path(job.home.run("worker-1", 1), "claim").unlink()
    assert job.code("worker-1") == 143
    assert job.last_words("worker-1")["exit"]["cause"] == "lost"


@pytest.fixture
def gate():
    made = []

    def make(job, member):
        """Between this member and its coordinator."""
        made.append(Gate(job.ports[0]))
        job.ways[member] = made[-1].port
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_pod_whose_line_was_cut_comes_back_to_its_coordinator(stage, gate):
    job = stage('while [ ! -e "$DROMON_CHECKPOINT_DIR/go" ]; do sleep 0.1; done', replicas=2)
    way = gate(job, "worker-1")
    job.start()
    job.until(lambda: job.status().get("state") == "running")
    way.cut()
    way.mend()
    job.until(lambda: way.lines >= 2)
    Path(job.home.checkpoints, "go").touch()
    assert job.codes() == {"worker-0": 0, "worker-1": 0}
    assert job.status()["attempt"] == 1


def one_cut_off(stage, gate):
    """A gang of two that runs, and the second is heard of no more."""
    job = stage("sleep 600", replicas=2, stop_grace=0)
    job.lease = 2.0
    way = gate(job, "worker-1")
    job.start()
    job.until(lambda: job.status().get("state") == "running")
    way.cut()
    return job


@pytest.mark.faults
def test_a_pod_that_is_never_heard_of_again_is_missed_and_the_gang_gets_new_pods(stage, gate):
    job = one_cut_off(stage, gate)
    assert job.code("worker-0") == 143  # Volcano makes all pods anew
    events = Path(job.home.path("events.jsonl")).read_text()
    assert '"MemberLost", "member": "worker-1"' in events


@pytest.mark.faults
def test_a_stop_ends_though_one_pod_does_not_hear_of_it(stage, gate):
    job = one_cut_off(stage, gate)
    ask(job, "POST", "/stop", json.dumps({"by": "ann", "grace": 0.0}).encode())
    assert job.code("worker-0") == 203
    assert job.status()["state"] == "stopped"
