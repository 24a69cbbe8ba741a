"""Why a job on Kubernetes waits: sentences over what an API server shows."""

import pytest
from clusterview import Cluster

from dromon.engines.kubernetes.why import explain, of_gang


@pytest.fixture
def cluster():
    return Cluster()


def why(cluster):
    return explain(cluster.look(), cluster.now)


# --- where it stands at all


@pytest.mark.parametrize(
    ("phase", "sentence", "reason"),
    [
        ("Completed", "it has ended (completed)", "unknown"),
        ("Terminating", "it ends", "stopping"),
        ("Aborted", "it was suspended from outside and holds nothing", "unknown"),
    ],
)
def test_phases_that_need_no_looking_around(cluster, phase, sentence, reason):
    cluster.job(phase=phase)
    found = why(cluster)
    assert (found.sentence, found.reason) == (sentence, reason)


def test_a_job_volcano_has_not_seen_yet(cluster):
    cluster.job(phase="", after=295)
    assert why(cluster).reason == "preparing"


def test_a_job_volcano_never_sees_points_at_its_controllers(cluster):
    cluster.job(phase="")
    found = why(cluster)
    assert found.sentence == "Volcano has not taken it in for 5m00s"
    assert "controllers" in found.unblock[0]


def test_a_job_volcano_cannot_take_in_has_volcanos_words(cluster):
    cluster.job(phase="")
    cluster.event("train-aaaaaa", "PluginError", "no such plugin", kind="Job")
    assert why(cluster).sentence == "Volcano cannot take it in: no such plugin"


def test_a_job_whose_pods_all_run_runs(cluster):
    cluster.node("n1")
    job = cluster.job(phase="Running")
    cluster.pod(job, 0, "n1")
    cluster.pod(job, 1, "n1")
    assert why(cluster).sentence == "runs, with 2 pods"


# --- queues


def test_a_queue_that_is_not_there(cluster):
    cluster.job(queue="teem")
    found = why(cluster)
    assert found.sentence == "there is no queue teem; there are team"
    assert found.reason == "impossible"


def test_a_queue_that_is_closed_and_where_else_it_could_go(cluster):
    cluster.node("n1")
    cluster.queue("shut", state="Closed", parent="root")
    cluster.group(cluster.job(queue="shut"), "Pending")
    found = why(cluster)
    assert found.sentence == "queue shut is closed and takes nothing in"
    assert found.unblock == ("queue shut is opened", "it goes to queue team")


def test_more_than_the_queue_may_ever_use(cluster):
    cluster.node("n1", gpus=8)
    cluster.node("n2", gpus=8)
    cluster.queue("small", parent="root", capability={"nvidia.com/gpu": "4"})
    cluster.group(cluster.job(queue="small"))
    found = why(cluster)
    assert found.sentence == (
        "it needs 8 GPUs together and queue small may never use more than 4 GPUs"
    )
    assert (found.reason, found.missing) == ("impossible", {"nvidia.com/gpu": 4.0})


def test_a_limit_of_the_queue_above_counts_too(cluster):
    cluster.node("n1")
    cluster.queue("dept", parent="root", capability={"nvidia.com/gpu": "4"})
    cluster.queue("lab", parent="dept")
    cluster.group(cluster.job(queue="lab"))
    assert "queue dept may never use more than 4 GPUs" in why(cluster).sentence


def test_a_queue_at_its_limit_names_those_who_use_it(cluster):
    for name in ("n1", "n2"):
        cluster.node(name)
    cluster.queue("small", parent="root", capability={"nvidia.com/gpu": "10"})
    cluster.runs("other-bbbbbb", "n1", queue="small")
    cluster.runs("far-cccccc", "n1", queue="team")
    cluster.group(cluster.job(queue="small"))
    found = why(cluster)
    assert found.sentence == (
        "it needs 8 GPUs and queue small uses 4 GPUs of the 10 GPUs it may;"
        " held by other-bbbbbb 4 GPUs"
    )
    assert found.holders == ("other-bbbbbb",)
    assert found.missing == {"nvidia.com/gpu": 2.0}
    assert found.unblock == ("other-bbbbbb ends", "it goes to queue team")


def test_what_is_free_may_be_kept_for_another_queue(cluster):
    cluster.node("n1")
    cluster.queue("vip", parent="root", guarantee={"nvidia.com/gpu": "4"})
    cluster.group(cluster.job())
    assert why(cluster).sentence == ("it needs 8 GPUs, and what is left is guaranteed to queue vip")


# --- nodes


def test_no_node_is_large_enough(cluster):
    cluster.node("n1", gpus=4)
    cluster.node("n2", gpus=2)
    cluster.group(cluster.job(gpus=8, replicas=1))
    found = why(cluster)
    assert found.sentence == (
        "a pod of worker needs 8 GPUs and no node has that much; n1 has 4 GPUs"
    )
    assert found.reason == "impossible"


def test_a_gang_too_big_for_the_whole_cluster(cluster):
    cluster.node("n1", gpus=4)
    cluster.node("n2", gpus=4)
    cluster.group(cluster.job(gpus=4, replicas=3))
    found = why(cluster)
    assert found.sentence == (
        "it needs 3 pods of worker with 4 GPUs each at once, and the whole cluster has room for 2"
    )
    assert found.reason == "impossible"


def test_a_node_that_is_down_does_not_make_it_impossible(cluster):
    cluster.node("n1", gpus=4)
    cluster.node("n2", gpus=4, ready=False)
    cluster.group(cluster.job())
    found = why(cluster)
    assert found.sentence == (
        "it needs 2 pods of worker with 4 GPUs each at once, and the nodes that are up have room"
        " for 1 (not counted: 1 node not ready)"
    )
    assert (found.reason, found.unblock) == ("resources", ("n2 comes back",))


def test_labels_nobody_has_and_taints_nobody_tolerates(cluster):
    cluster.node("n1")
    cluster.node("n2", taints=[{"key": "dedicated", "value": "vip", "effect": "NoSchedule"}],
                 labels={"kind": "h100"})  # fmt: skip
    cluster.group(cluster.job(spec={"nodeSelector": {"kind": "h100"}}))
    found = why(cluster)
    assert found.sentence == (
        "no node suits worker: 1 node without the label kind=h100,"
        " 1 node with the taint dedicated=vip"
    )
    assert found.reason == "impossible"


def test_a_toleration_lifts_a_taint(cluster):
    cluster.node("n1", taints=[{"key": "dedicated", "value": "vip", "effect": "NoSchedule"}])
    tolerates = {"key": "dedicated", "operator": "Equal", "value": "vip"}
    cluster.group(cluster.job(spec={"tolerations": [tolerates]}), after=295)
    assert why(cluster).reason == "about to start"


@pytest.mark.parametrize(
    ("operator", "values", "suits"),
    [
        ("In", ["a", "b"], True), ("In", ["b"], False), ("NotIn", ["b"], True),
        ("Exists", [], True), ("DoesNotExist", [], False), ("Gt", ["1"], False),
    ],
)  # fmt: skip
def test_node_affinity_is_understood(cluster, operator, values, suits):
    cluster.node("n1", labels={"zone": "a"})
    term = {"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    cluster.group(cluster.job(spec={"affinity": {"nodeAffinity": required}}), after=295)
    found = why(cluster).sentence
    assert (found != "no node suits worker: 1 node outside its node affinity") is suits


def test_room_that_others_hold_is_told_node_by_node(cluster):
    for name in ("n1", "n2"):
        cluster.node(name, gpus=4)
    cluster.runs("other-bbbbbb", "n2", gpus=2, after=-50)
    cluster.group(cluster.job(), said="0/2 nodes are unavailable: 1 Insufficient nvidia.com/gpu.")
    found = why(cluster)
    assert found.sentence == (
        "it needs 2 pods of worker with 4 GPUs each and there is room for 1; the nearest node, n2,"
        " has 2 GPUs free; held by other-bbbbbb 2 GPUs"
    )
    assert (found.reason, found.position) == ("resources", 1)
    assert (found.holders, found.missing) == (("other-bbbbbb",), {"nvidia.com/gpu": 2.0})
    assert found.unblock == ("other-bbbbbb ends",)


def test_pods_of_no_job_hold_room_too_and_are_named_by_their_owner(cluster):
    cluster.node("n1", gpus=4)
    other = cluster.runs("serving", "n1", gpus=1, namespace="web")
    cluster.objects[next(k for k in cluster.objects if k.name == "Job")].remove(other)
    cluster.group(cluster.job(replicas=1))
    assert why(cluster).sentence.endswith("; held by serving of namespace web 1 GPU")


def test_nodes_that_do_not_count_are_mentioned(cluster):
    cluster.node("n1", gpus=4)
    cluster.node("n2", gpus=4, unschedulable=True)
    cluster.node("n3", gpus=4, ready=False)
    cluster.runs("other-bbbbbb", "n1")
    cluster.group(cluster.job(replicas=1))
    assert why(cluster).sentence.endswith("(not counted: 1 node cordoned, 1 node not ready)")


def test_pods_that_each_want_a_node_need_as_many_nodes(cluster):
    cluster.node("n1")
    alone = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    cluster.group(cluster.job(spec={"affinity": {"podAntiAffinity": {key: [alone]}}}))
    assert why(cluster).sentence.endswith("and the whole cluster has room for 1")


def test_what_is_bound_already_is_not_asked_for_twice(cluster):
    cluster.node("n1", gpus=4)
    cluster.node("n2", gpus=4)
    job = cluster.job()
    cluster.group(job)
    cluster.pod(job, 0, "n1", phase="Pending")
    cluster.pod(job, 1)
    cluster.runs("other-bbbbbb", "n2", gpus=1)
    assert why(cluster).sentence.startswith("it needs 1 pod of worker with 4 GPUs and there is")


def test_whoever_is_being_ended_for_it_is_named(cluster):
    cluster.node("n1", gpus=4)
    low = cluster.job("low-bbbbbb", priority="low", phase="Running")
    cluster.pod(low, 0, "n1", deleted=310)
    cluster.group(cluster.job(replicas=1, priority="high"))
    found = why(cluster)
    assert found.unblock == (
        "low-bbbbbb is being ended right now",
        "low-bbbbbb ends",
        "its priority is higher than that of low-bbbbbb, which may be preempted for it",
    )


def test_the_trap_in_which_volcano_never_preempts_is_told(cluster):
    cluster.node("n1", gpus=4)
    cluster.runs("low-bbbbbb", "n1", priority="low")
    cluster.group(cluster.job(replicas=1, priority="high"), "Pending")
    assert "does not preempt for a job it has not let in" in why(cluster).unblock[-1]


# --- the order, and silence


def test_who_is_before_it_when_there_is_room(cluster):
    cluster.node("n1")
    cluster.group(cluster.job(), "Pending")
    cluster.job("first-bbbbbb", priority="high", after=10)
    cluster.job("late-cccccc", after=20)
    found = why(cluster)
    assert found.sentence == "first-bbbbbb is before it in queue team: it has a higher priority"
    assert (found.reason, found.position, found.holders) == ("order", 2, ("first-bbbbbb",))


def test_a_group_never_let_in_although_there_is_room(cluster):
    cluster.node("n1")
    cluster.group(cluster.job(), "Pending")
    found = why(cluster)
    assert found.sentence == (
        "Volcano has not let it in for 5m00s although there is room, and does not say why"
    )


def test_volcanos_own_words_are_better_than_none(cluster):
    cluster.node("n1")
    job = cluster.job()
    cluster.group(job, "Pending")
    cluster.event(f"train-aaaaaa-{job['metadata']['uid']}", "Unschedulable",
                  "queue resource quota insufficient", kind="PodGroup")  # fmt: skip
    assert why(cluster).sentence == "Volcano says: queue resource quota insufficient"


def test_who_may_not_see_nodes_hears_what_is_left_and_why_it_is_so_little(cluster):
    cluster.node("n1", gpus=1)
    cluster.forbidden = {("nodes", ""), ("pods", ""), ("jobs", "")}
    cluster.group(cluster.job(), said="2/2 tasks in gang unschedulable: no DRA")
    found = why(cluster)
    assert found.sentence == (
        "Volcano says: no DRA (you may not look at pods of other namespaces, jobs of other"
        " namespaces and nodes)"
    )


def test_who_may_not_see_pods_still_gets_the_queues_own_count(cluster):
    cluster.queue("small", parent="root", capability={"nvidia.com/gpu": "10"})
    cluster.objects[next(k for k in cluster.objects if k.name == "Queue")][-1]["status"][
        "allocated"
    ] = {"nvidia.com/gpu": "4"}
    cluster.forbidden = {("nodes", ""), ("pods", "")}
    cluster.group(cluster.job(queue="small"))
    assert why(cluster).sentence == (
        "it needs 8 GPUs and queue small uses 4 GPUs of the 10 GPUs it may"
    )


# --- on the way to another try


def test_a_pod_on_a_lost_node_cannot_be_ended(cluster):
    cluster.node("n1")
    cluster.node("n2", ready=False)
    job = cluster.job(phase="Restarting")
    cluster.pod(job, 1, "n2", deleted=200)
    found = why(cluster)
    assert found.sentence == "worker-1 cannot be ended: node n2 does not answer for 3m20s"
    assert "by force" in found.unblock[1]


def test_a_node_that_does_not_answer_is_named_before_kubernetes_gives_it_up(cluster):
    cluster.node("n1")
    cluster.node("n2", ready=False)
    job = cluster.job(phase="Running")
    cluster.pod(job, 0, "n1")
    cluster.pod(job, 1, "n2")
    found = why(cluster)
    assert found.sentence == "node n2 does not answer for 3m20s, and worker-1 is on it"
    assert found.unblock == ("the node comes back", "Kubernetes gives it up")


def test_who_may_not_see_nodes_is_not_told_that_one_is_gone(cluster):
    cluster.node("n1")
    cluster.forbidden = {("nodes", "")}
    cluster.pod(cluster.job(phase="Restarting"), 1, "n1", deleted=200)
    assert why(cluster).sentence.startswith("a pod was lost; the gang begins anew")


def test_who_was_preempted_for_whom(cluster):
    cluster.node("n1")
    job = cluster.job(phase="Restarting", priority="low")
    cluster.job("vip-bbbbbb", priority="high", after=60)
    taken = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    cluster.pod(job, 0, "n1", deleted=310, conditions=[taken])
    found = why(cluster)
    assert found.sentence == (
        "it was preempted for vip-bbbbbb, whose priority is higher; the gang begins anew"
        " once all have ended (1 pod left)"
    )
    assert found.reason == "backoff"


def test_a_victim_that_waits_again_is_told_of_it(cluster):
    cluster.node("n1", gpus=4)
    cluster.runs("vip-bbbbbb", "n1", priority="high")
    cluster.group(cluster.job(replicas=1))
    cluster.event("train-aaaaaa-worker-0", "Evict", "Pod is evicted, because of preempt")
    assert why(cluster).sentence.startswith(
        "it was preempted for vip-bbbbbb, whose priority is higher; it needs 1 pod of worker"
    )


def test_a_reclaim_is_no_preemption(cluster):
    cluster.node("n1", gpus=4)
    job = cluster.job(phase="Restarting")
    taken = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    cluster.pod(job, 0, "n1", deleted=310, conditions=[taken])
    cluster.event("train-aaaaaa-worker-0", "Evict", "Pod is evicted, because of reclaim")
    assert why(cluster).sentence.startswith("its room was taken back for another queue; the gang")


def test_pods_ended_by_the_restart_are_not_its_reason(cluster):
    cluster.node("n1")
    job = cluster.job(phase="Restarting")
    told = {"terminated": {"exitCode": 143, "reason": "Error"}}
    cluster.pod(job, 0, "n1", phase="Failed", state=told)
    assert why(cluster).sentence == "a pod was lost; the gang begins anew once all have ended"
    failed = {"terminated": {"exitCode": 3, "reason": "Error"}}
    cluster.pod(job, 1, "n1", phase="Failed", state=failed)
    assert why(cluster).sentence.startswith("worker-1 failed with exit code 3; the gang begins")


def test_a_gang_that_runs_is_not_well_once_a_pod_is_being_taken(cluster):
    cluster.node("n1")
    job = cluster.job(phase="Running")
    taken = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    cluster.pod(job, 0, "n1")
    cluster.pod(job, 1, "n1", deleted=310, conditions=[taken])
    assert why(cluster).sentence == (
        "worker-1 was evicted; the gang begins anew once all have ended (1 pod left)"
    )


def test_room_that_volcano_makes_is_told(cluster):
    cluster.node("n1", gpus=4)
    low = cluster.job("low-bbbbbb", priority="low", phase="Running")
    cluster.pod(low, 0, "n1", deleted=310)
    said = "0/1 tasks in gang unschedulable: pod group is not ready, 1 Pipelined, 1 minAvailable"
    cluster.group(cluster.job(replicas=1, priority="high"), said=said)
    found = why(cluster)
    assert found.sentence == "room is being made for it: low-bbbbbb must end first"
    assert (found.reason, found.holders) == ("about to start", ("low-bbbbbb",))


def test_of_what_volcano_says_of_every_gang_its_count_is_told(cluster):
    cluster.node("n1")
    said = (
        "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable;"
        " Pending: 2 Unschedulable"
    )
    cluster.group(cluster.job(), said=said)
    assert why(cluster).sentence == (
        "Volcano finds no node for 2 of the 2 pods that must start together, and does not say why"
    )


def test_of_volcanos_words_the_last_are_the_reason(cluster):
    cluster.node("n1")
    said = (
        "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable;"
        " Pending: 2 Unschedulable. Origin reason is train-aaaaaa-worker-0: 0/1 nodes are"
        " unavailable: 1 node(s) had no free port."
    )
    cluster.group(cluster.job(), said=said)
    assert why(cluster).sentence == (
        "Volcano says: 0/1 nodes are unavailable: 1 node(s) had no free port"
    )


@pytest.mark.parametrize(
    ("standing", "sentence"),
    [
        ({"state": "restarting", "retry_at": 1042.0}, "waits for 42s before it tries again"),
        ({"state": "restarting", "retry_at": None}, "waits before it tries again"),
        ({"state": "starting", "members": [{"member": "w-0", "connected": True},
                                           {"member": "w-1", "connected": False}]},
         "its members are on their way to the barrier: w-1 is not there yet"),
        ({"state": "queued", "members": []}, "its members are on their way to the barrier"),
        ({"state": "running", "trouble": "the disk is full"}, "the disk is full"),
    ],
)  # fmt: skip
def test_what_the_gang_itself_waits_for(standing, sentence):
    found = of_gang(standing, 1000.0)
    assert found is not None
    assert found.sentence == sentence


def test_a_gang_that_runs_waits_for_nothing():
    assert of_gang({"state": "running"}, 1000.0) is None
