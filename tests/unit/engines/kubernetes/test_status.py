"""How a job stands, from three sources that may disagree or be silent."""

import json

import pytest

from dromon.engines.kubernetes import pods as podfacts
from dromon.engines.kubernetes import volcano
from dromon.engines.kubernetes.status import phase, status

T0 = "2026-11-15T18:00:00Z"
START = podfacts.when(T0)


def at(seconds):
    return f"2026-11-15T18:{seconds // 60:02d}:{seconds % 60:02d}Z"


def job(now="Running", replicas=2, role="worker", policies=(), reason="", **more):
    task = {"name": role, "replicas": replicas, "template": {"spec": {"containers": []}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": "train-aaaaaa", "creationTimestamp": T0, "uid": "u1",
            "labels": {
                "dromon.io/job": "train-aaaaaa", "dromon.io/name": "train", "dromon.io/user": "al",
            },
            "annotations": {"dromon.io/submitted": str(START - 1)},
            **more,
        },
        "spec": {"queue": "team-a", "priorityClassName": "high", "tasks": [task],
                 "policies": list(policies)},
        "status": {"state": {"phase": now, "lastTransitionTime": at(120), "reason": reason}},
    }  # fmt: skip


def pod(index=0, now="Running", node="n1", role="worker", state=None, **status_more):
    """`state` is the main container's."""
    states = {"Running": {"running": {"startedAt": at(5)}}, "Pending": {"waiting": {}}}
    return {
        "metadata": {
            "name": f"train-aaaaaa-{role}-{index}", "creationTimestamp": at(2), "uid": f"p{index}",
            "labels": {"volcano.sh/task-spec": role, "volcano.sh/task-index": str(index),
                       "volcano.sh/job-name": "train-aaaaaa"},
            "annotations": {"volcano.sh/job-version": "0"},
        },
        "spec": {
            "nodeName": node, "schedulerName": "volcano", "priority": 90,
            "containers": [{"name": "main", "image": "py:1", "resources": {
                "requests": {"cpu": "500m", "memory": "1Gi"},
                "limits": {"memory": "1Gi", "nvidia.com/gpu": "1"}}}],
        },
        "status": {
            "phase": now,
            "containerStatuses": [{"name": "main", "image": "py:1",
                                   "state": state or states.get(now, {})}],
            **status_more,
        },
    }  # fmt: skip


def over(code, reason="Error", message="", finished=60):
    return {
        "terminated": {
            "exitCode": code, "reason": reason, "startedAt": at(5), "finishedAt": at(finished),
            "message": message,
        }
    }  # fmt: skip


def ended(index, code, reason="Error", message="", finished=60, **more):
    now = "Failed" if code else "Succeeded"
    return pod(index, now, state=over(code, reason, message, finished), **more)


def told(state="running", verdict=None, **more):
    member = {
        "member": "worker-0", "run": 2, "rank": 0, "state": "up", "host": "10.0.0.7", "pid": 7,
        "memory": 9, "exit": None, "container": "", "node": "", "connected": True,
    }  # fmt: skip
    return {
        "state": state, "attempt": 2, "started": START + 10, "members": [member],
        "verdict": verdict, **more,
    }  # fmt: skip


VERDICT = {
    "cause": "user_error", "message": "worker-1 (rank 1) failed with exit code 3",
    "member": "worker-1", "rank": 1, "attempt": 2, "code": 3, "signal": None, "last_lines": ["no"],
    "hint": "",
}  # fmt: skip


def of(given, *pods, live=None, record=None):
    return status(given, pods, live, record, "prod")


# --- who and where


def test_a_job_nobody_has_said_anything_of_waits():
    found = of(job(""))
    assert (found.id, found.name, found.user) == ("train-aaaaaa", "train", "al")
    assert (found.state, found.queue, found.on) == ("queued", "team-a", "prod")
    assert (found.engine, found.submitted, found.members) == ("kubernetes", START - 1, ())
    assert not found.is_terminal


def test_the_priority_is_what_its_pods_got_or_its_classs():
    assert of(job(), pod()).priority == 90
    classes = {"": 5, "high": 1000}
    assert status(job("Pending"), [], None, None, "prod", classes).priority == 1000
    plain = {**job(), "spec": {"template": {"spec": {"priorityClassName": "high"}}}}
    assert status(plain, [], None, None, "prod", classes).priority == 1000
    del plain["spec"]["template"]["spec"]["priorityClassName"]
    assert status(plain, [], None, None, "prod", classes).priority == 5


# --- while it is there


def test_pods_without_a_node_are_a_queued_job():
    assert of(job("Pending"), pod(0, "Pending", node="")).state == "queued"


def test_a_job_of_which_pods_have_nodes_starts():
    found = of(job("Pending"), pod(0), pod(1, "Pending"))
    assert found.state == "starting"
    assert found.resources == {"cpus": 1.0, "memory": 2.0 * 2**30, "gpus": 2.0}


def test_while_it_runs_its_coordinator_knows_best():
    found = of(job(), pod(0), pod(1), live=told())
    assert (found.state, found.attempt, found.started) == ("running", 2, START + 10)
    (member,) = found.members
    assert (member.member, member.run, member.host, member.pid) == ("worker-0", 2, "n1", 7)


def test_a_coordinator_that_has_no_gang_yet_is_still_a_start():
    assert of(job(), pod(), live=told("queued")).state == "starting"


def test_what_was_recorded_by_pods_that_are_gone_is_not_taken_for_news():
    assert of(job("Pending"), pod(0, "Pending"), record=told("running")).state == "starting"
    assert of(job("Running"), pod(0), record=told("running")).state == "running"


def test_a_first_pod_that_is_taken_away_is_no_start_but_a_restart():
    going = pod(0, conditions=disruption("DeletionByTaintManager"))
    going["metadata"]["deletionTimestamp"] = at(60)
    found = of(job("Running"), going, pod(1), record=told("running"))
    assert found.state == "restarting"
    assert [m.state for m in found.members] == ["gone"]  # with its node


@pytest.mark.parametrize(
    ("now", "state"),
    [
        ("Restarting", "restarting"), ("Aborting", "restarting"), ("Aborted", "queued"),
        ("Terminating", "stopping"), ("Completing", "stopping"),
    ],
)  # fmt: skip
def test_the_phases_between(now, state):
    assert of(job(now), pod(), live=told()).state == state


def test_a_job_is_over_only_when_volcano_says_so_too():
    found = of(job("Running"), pod(), live=told("failed", VERDICT))
    assert (found.state, found.verdict) == ("stopping", None)
    assert not found.is_terminal


def test_a_job_that_is_being_deleted_is_stopping():
    assert of(job("Running", deletionTimestamp=at(90)), pod(), live=told()).state == "stopping"


def test_members_are_seen_in_pods_before_anybody_tells_of_them():
    found = of(job("Pending"), pod(1, "Pending"), pod(0))
    assert [(m.member, m.rank, m.state, m.host) for m in found.members] == [
        ("worker-0", 0, "launched", "n1"),
        ("worker-1", 1, "launched", "n1"),
    ]


# --- its end, told


@pytest.mark.parametrize("how", ["live", "record"])
def test_the_coordinators_verdict_counts_when_it_gave_one(how):
    found = of(job("Terminated"), ended(0, 201), **{how: told("failed", VERDICT)})
    assert (found.state, found.ended) == ("failed", START + 120)
    assert found.verdict == VERDICT


def test_a_record_that_is_final_comes_before_a_page_that_lags():
    found = of(job("Terminated"), live=told("running"), record=told("failed", VERDICT))
    assert (found.state, found.verdict) == ("failed", VERDICT)


def test_the_first_pods_last_words_do_where_there_is_no_store():
    note = json.dumps(
        {"member": "worker-0", "run": 2, "state": "failed", "verdict": VERDICT, "attempt": 2}
    )
    found = of(job("Terminated"), ended(0, 201, message=note), ended(1, 0, "Completed"))
    assert (found.state, found.attempt, found.verdict) == ("failed", 2, VERDICT)
    assert [m.state for m in found.members] == ["broken", "done"]


def test_last_words_of_another_pod_are_no_verdict():
    note = json.dumps({"member": "worker-1", "state": "failed", "verdict": VERDICT})
    assert of(job("Completed"), ended(0, 0), ended(1, 0, message=note)).state == "succeeded"


# --- its end, seen in its pods alone


def test_completed_is_success():
    found = of(job("Completed"), ended(0, 0, "Completed"), ended(1, 0, "Completed"))
    assert (found.state, found.verdict["cause"]) == ("succeeded", "success")
    assert found.started == START + 5


@pytest.mark.parametrize(
    ("code", "state", "cause"),
    [(200, "succeeded", "success"), (202, "failed", "timeout"), (203, "stopped", "stopped")],
)
def test_reserved_exit_codes_speak_for_themselves(code, state, cause):
    found = of(job("Terminated"), ended(0, code))
    assert (found.state, found.verdict["cause"]) == (state, cause)


def test_the_first_that_failed_is_named_with_its_rank():
    found = of(job("Failed"), ended(0, 1, finished=70), ended(1, 3, finished=60))
    assert found.state == "failed"
    assert found.verdict["member"] == "worker-1"
    assert found.verdict["message"] == "worker-1 (rank 1) failed with exit code 3"
    assert found.verdict["code"] == 3


def test_who_was_told_to_end_is_not_who_failed():
    found = of(job("Failed"), ended(0, 143, finished=50), ended(1, 3, finished=60))
    assert found.verdict["member"] == "worker-1"


def test_what_an_agent_noted_of_its_member_is_the_better_word():
    note = json.dumps(
        {"member": "worker-1", "exit": {"code": 7, "cause": "user_error", "message": "no data",
                                        "last_lines": ["KeyError: 'x'"]}}
    )  # fmt: skip
    found = of(job("Failed"), pod(0), ended(1, 1, message=note))
    assert found.verdict["message"] == "worker-1 (rank 1) failed with exit code 7: no data"
    assert found.verdict["last_lines"] == ["KeyError: 'x'"]


def test_a_log_that_kubernetes_kept_of_a_broken_start_is_shown():
    said = "Traceback:\nSyntaxError: invalid syntax"
    found = of(job("Failed", replicas=1), ended(0, 1, message=said))
    assert found.verdict["last_lines"] == ["Traceback:", "SyntaxError: invalid syntax"]
    assert found.verdict["message"] == "worker-0 failed with exit code 1"


def disruption(reason, message=""):
    return [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}]


@pytest.mark.parametrize(
    ("given", "cause", "words"),
    [
        (ended(0, 137, "OOMKilled"), "out_of_memory",
         "was killed by SIGKILL: out of memory, with a limit of 1.0 GiB of memory"),
        (ended(0, 139), "user_error", "was killed by SIGSEGV"),
        (ended(0, 128, "StartError", 'exec: "python9": executable file not found in $PATH'),
         "environment", 'could not start: exec: "python9": executable file not found in $PATH'),
        (ended(0, 137, "ContainerStatusUnknown"), "lost", "was lost: node n1 went away"),
        (pod(0, "Failed", reason="Evicted", message="The node was low on resource: memory."),
         "evicted", "was evicted: the node was low on resource: memory"),
        (ended(0, 143, conditions=disruption("PreemptionByScheduler", "preempted by x-0")),
         "preempted", "was preempted: preempted by x-0"),
        (ended(0, 143, conditions=disruption("EvictionByEvictionAPI")), "evicted", "was evicted"),
        (pod(0, "Failed", conditions=disruption("DeletionByTaintManager")), "lost", "was lost"),
        (pod(0, "Failed", reason="Terminated",
             message="Pod was terminated in response to imminent node shutdown."),
         "lost", "was lost: pod was terminated in response to imminent node shutdown"),
        (pod(0, "Unknown", reason="NodeLost"), "lost", "was lost: node n1 was lost"),
        (pod(0, "Failed", reason="DeadlineExceeded"), "timeout", "was over its time"),
        (pod(0, "Failed", reason="UnexpectedAdmissionError", message="Allocate failed",
             state={"waiting": {}}),
         "internal", "was refused by node n1: allocate failed"),
    ],
)  # fmt: skip
def test_ends_that_are_told_apart(given, cause, words):
    found = of(job("Failed"), given)
    assert found.verdict["cause"] == cause
    assert found.verdict["message"] == f"worker-0 (rank 0) {words}"


@pytest.mark.parametrize(
    ("reason", "message", "words"),
    [
        ("ErrImageNeverPull", "", "image py:1 is not on node n1, and its pull policy is Never"),
        ("InvalidImageName", "", "'py:1' is no name of an image"),
        ("ImagePullBackOff",
         'Back-off pulling image "py:1": ErrImagePull: failed to resolve reference:'
         " r.example/py:1: not found",
         "image py:1 cannot be pulled (ImagePullBackOff): r.example/py:1: not found"),
        ("CreateContainerConfigError", 'secret "hub" not found', 'secret "hub" not found'),
    ],
)  # fmt: skip
def test_a_job_ended_while_it_could_not_start_says_why(reason, message, words):
    stuck = pod(0, "Pending", state={"waiting": {"reason": reason, "message": message}})
    found = of(job("Terminated"), stuck)
    assert (found.state, found.verdict["cause"]) == ("failed", "environment")
    assert found.verdict["message"] == f"worker-0 (rank 0) could not start: {words}"


def test_a_job_terminated_without_pods_was_stopped():
    found = of(job("Terminated"))
    assert found.state == "stopped"
    assert found.verdict["message"] == "stopped before it started"


def test_a_job_terminated_by_the_limit_on_waiting_says_so():
    limit = {"event": "PodPending", "action": "TerminateJob", "timeout": "2m0s"}
    found = of(job("Terminated", policies=[limit]))
    assert (found.state, found.verdict["cause"]) == ("failed", "timeout")
    assert found.verdict["message"] == "still queued after 2m0s"


def test_a_job_volcano_gave_up_without_pods_has_volcanos_words():
    found = of(job("Failed", reason="JobStatusError"))
    assert found.verdict["message"] == "Volcano gave it up: JobStatusError"


# --- without Volcano


def plain(conditions=(), **status_more):
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "one-aaaaaa", "creationTimestamp": T0},
        "spec": {"template": {"metadata": {"labels": {"dromon.io/role": "main"}}, "spec": {}}},
        "status": {"conditions": list(conditions), **status_more},
    }


def suspended(given):
    given["spec"]["suspend"] = True
    return given


def own(given, created=2):
    given["metadata"].update(
        labels={"dromon.io/role": "main"}, annotations={}, creationTimestamp=at(created)
    )
    return given


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (plain(active=1, ready=1), "Running"),
        (plain(active=1, ready=0), "Pending"),
        (plain([{"type": "Complete", "status": "True", "lastTransitionTime": T0}]), "Completed"),
        (plain([{"type": "Failed", "status": "True", "lastTransitionTime": T0}]), "Failed"),
        (plain([{"type": "FailureTarget", "status": "True"}], active=1), "Completing"),
        (suspended(plain(active=1)), "Terminating"),
        (suspended(plain()), "Terminated"),
    ],
)
def test_a_plain_job_has_volcanos_phases(given, expected):
    assert phase(given) == expected


def test_of_the_pods_of_a_plain_job_the_youngest_counts():
    found = of(plain(active=1, ready=1), own(ended(0, 1), 2), own(pod(0, node="n2"), 9))
    assert [(m.member, m.host, m.state) for m in found.members] == [("main-0", "n2", "launched")]


def test_a_plain_job_that_failed_has_its_pods_cause():
    failed = {"type": "Failed", "status": "True", "lastTransitionTime": at(99),
              "reason": "BackoffLimitExceeded"}  # fmt: skip
    found = of(plain([failed]), own(ended(0, 137, "OOMKilled")))
    assert (found.state, found.ended) == ("failed", START + 99)
    assert found.verdict["cause"] == "out_of_memory"
    assert found.verdict["message"].startswith("main-0 was killed by SIGKILL: out of memory")


def test_one_that_was_ended_because_it_could_never_start_says_so():
    given = job("Terminated")
    given["metadata"].setdefault("annotations", {})[volcano.TROUBLE] = "worker-0 could not start"
    found = of(given)
    assert (found.state, found.verdict["cause"]) == ("failed", "environment")
    assert found.verdict["message"] == "worker-0 could not start"
