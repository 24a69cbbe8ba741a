"""Hangs of Volcano, found and cured by calls that are only values here."""

import pytest
from clusterview import Cluster

from dromon.engines.kubernetes import pods, volcano
from dromon.engines.kubernetes.calls import overdue, unstartable
from dromon.engines.kubernetes.watchdog import look


@pytest.fixture
def cluster():
    return Cluster()


def found(cluster):
    return look(cluster.look(), cluster.now)


def only(cluster):
    (finding,) = found(cluster)
    return finding


def woken(finding, action="ResumeJob"):
    (call,) = finding.cure
    assert (call.verb, call.kind, call.namespace) == ("create", volcano.COMMAND, "ml")
    assert call.body["target"]["uid"] == "uid-train-aaaaaa"
    return call.body["action"] == action


@pytest.mark.parametrize("phase", ["Restarting", "Terminating", "Completing"])
def test_a_gang_between_two_phases_without_pods_is_woken(cluster, phase):
    job = cluster.job(phase=phase)
    job["status"]["terminating"] = 1
    finding = only(cluster)
    assert finding.sentence == (
        f"Volcano has it in {phase} for 5m00s; it has no pods any more and still counts 1 that end"
    )
    assert woken(finding)


def test_one_on_its_way_to_be_suspended_is_not_resumed(cluster):
    cluster.job(phase="Aborting")
    assert woken(only(cluster), "AbortJob")


def test_pods_that_still_end_are_waited_for(cluster):
    cluster.node("n1")
    cluster.pod(cluster.job(phase="Restarting"), 0, "n1", deleted=310)
    assert found(cluster) == []


def test_a_step_that_has_only_begun_is_left_alone(cluster):
    cluster.job(phase="Restarting", after=270)
    assert found(cluster) == []


def test_an_end_is_an_end(cluster):
    cluster.job(phase="Terminated")
    assert found(cluster) == []


def test_pods_of_a_node_that_is_long_away_are_deleted_by_force(cluster):
    cluster.node("n1", ready=False)
    cluster.pod(cluster.job(phase="Restarting"), 1, "n1", deleted=200)
    finding = only(cluster)
    assert finding.sentence == "worker-1 cannot end, for n1 does not answer"
    (call,) = finding.cure
    assert (call.verb, call.kind, call.name) == ("delete", volcano.POD, "train-aaaaaa-worker-1")
    assert (call.grace, call.uid) == (0, "uid-train-aaaaaa-worker-1")


def test_nobody_is_replaced_while_its_agent_may_still_live(cluster):
    cluster.node("n1", ready=False)
    cluster.pod(cluster.job(phase="Restarting"), 1, "n1", deleted=200)
    cluster.now = cluster.now - 100  # the node is away for 100 s only
    assert found(cluster) == []


def test_a_job_without_a_group_is_woken(cluster):
    cluster.job()
    finding = only(cluster)
    assert finding.sentence == "Volcano has made no PodGroup for it in 5m00s"
    assert woken(finding)


def test_who_may_not_see_groups_does_not_miss_one(cluster):
    cluster.job()
    cluster.forbidden = {("podgroups", "ml")}
    assert found(cluster) == []


def test_a_group_let_in_without_pods_is_woken(cluster):
    cluster.node("n1")
    cluster.group(cluster.job())
    assert woken(only(cluster))


def test_pods_the_api_server_refuses_are_no_hang(cluster):
    cluster.node("n1")
    cluster.group(cluster.job())
    cluster.event("train-aaaaaa", "FailedCreatePod", "exceeded quota: q", kind="Job")
    assert found(cluster) == []


def test_a_group_not_let_in_although_there_is_room_is_told(cluster):
    cluster.node("n1")
    cluster.group(cluster.job(), "Pending")
    finding = only(cluster)
    assert (finding.kind, finding.cure) == ("not let in", ())
    assert "although there is room" in finding.sentence


def test_the_trap_of_preemption_is_told(cluster):
    cluster.node("n1", gpus=4)
    cluster.runs("low-bbbbbb", "n1", priority="low")
    cluster.group(cluster.job(replicas=1, priority="high"), "Pending")
    assert "does not preempt for a job it has not let in" in only(cluster).sentence


def test_a_group_that_waits_for_room_is_no_hang(cluster):
    cluster.node("n1", gpus=4)
    cluster.runs("other-bbbbbb", "n1")
    cluster.group(cluster.job(replicas=1), "Pending")
    assert found(cluster) == []


def test_pods_of_another_scheduler_are_no_gang(cluster):
    cluster.node("n1")
    job = cluster.job(phase="Running")
    cluster.group(job, "Running")
    for index in (0, 1):
        cluster.pod(job, index, "n1")["spec"]["schedulerName"] = "default-scheduler"
    assert "placed by default-scheduler, one by one" in only(cluster).sentence


def test_pods_from_before_the_last_restart_are_ended(cluster):
    cluster.node("n1")
    job = cluster.job(phase="Running")
    cluster.group(job, "Running")
    cluster.pod(job, 0, "n1")
    cluster.pod(job, 1, "n1", version=0)
    finding = only(cluster)
    assert finding.sentence == "worker-1 is from before the last restart"
    (call,) = finding.cure
    assert (call.verb, call.name, call.grace) == ("delete", "train-aaaaaa-worker-1", None)


def test_jobs_that_replace_single_pods_have_pods_of_all_versions(cluster):
    cluster.node("n1")
    job = cluster.job(phase="Running")
    job["spec"]["policies"] = [{"event": "PodFailed", "action": "RestartPod"}]
    cluster.group(job, "Running")
    cluster.pod(job, 0, "n1", version=0)
    assert found(cluster) == []


def ended(finished):
    return {"terminated": {"exitCode": 0, "startedAt": Cluster.stamp(5),
                           "finishedAt": Cluster.stamp(finished)}}  # fmt: skip


def test_half_a_gang_that_began_anew_is_restarted_whole(cluster):
    cluster.node("n1")
    job = cluster.job(phase="Running")
    cluster.group(job, "Running")
    cluster.pod(job, 0, "n1", phase="Succeeded", state=ended(8))
    cluster.pod(job, 1, "n1")  # made at 10
    finding = only(cluster)
    assert finding.sentence == (
        "worker-1 began anew without worker-0, which Volcano counts as ready"
    )
    assert woken(finding, "RestartJob")


def test_a_member_that_is_through_before_the_others_is_no_half_gang(cluster):
    cluster.node("n1")
    job = cluster.job(phase="Running")
    cluster.group(job, "Running")
    cluster.pod(job, 0, "n1")
    cluster.pod(job, 1, "n1", phase="Succeeded", state=ended(200))
    assert found(cluster) == []


# --- jobs that have waited longer than they may


def waits(phase="Pending", timeout="2m0s"):
    policy = {"event": "PodPending", "action": "TerminateJob", "timeout": timeout}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {
            "name": "train-aaaaaa", "namespace": "ml", "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"policies": [policy], "tasks": []},
        "status": {"state": {"phase": phase}},
    }  # fmt: skip


def test_a_job_that_has_waited_too_long_is_ended_by_a_command():
    begin = 1767225600.0  # that moment
    assert overdue(waits(), begin + 120) is None  # Volcano gets a moment
    call = overdue(waits(), begin + 130)
    assert (call.verb, call.body["action"]) == ("create", "TerminateJob")
    assert overdue(waits("Running"), begin + 130) is None
    assert overdue(waits(timeout="1h"), begin + 130) is None


def unstarted(name, code):
    """A pod whose container of this name ended so."""
    over = {"name": name, "state": {"terminated": {"exitCode": code, "reason": "StartError"}}}
    kind = "initContainerStatuses" if name == "fetch" else "containerStatuses"
    return pods.facts(
        {"metadata": {"name": "j-worker-0"}, "status": {"phase": "Failed", kind: [over]}}
    )


def test_a_job_whose_init_container_cannot_be_started_is_ended_and_noted_why():
    job = {"metadata": {"name": "j", "uid": "u", "namespace": "n"}, "spec": {"tasks": []}}

    def asked(name, code, job=job):
        return unstartable(job, {"worker-0": unstarted(name, code)})

    call = asked("fetch", 128)
    assert (call.body["action"], call.job) == ("TerminateJob", "j")
    assert "could not start" in call.trouble
    assert asked("fetch", 1) is None
    assert asked("main", 128) is None  # Volcano sees that by itself
    assert asked("fetch", 128, {**job, "spec": {"template": {}}}) is None
