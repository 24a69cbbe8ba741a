"""Why an application waits: pure sentences over values, as a real ResourceManager gave them."""

from dataclasses import replace

import pytest

from dromon.engines.yarn.am.asks import Size
from dromon.engines.yarn.reports import NOTHING, Node, Queue, Report
from dromon.engines.yarn.situation import Ask, Limits, Situation, asks_of, limits_of
from dromon.engines.yarn.why import explain

GPU = "yarn.io/gpu"
NOT_ACTIVATED = (
    "[Sun Nov 15 14:20:47 +0000 2026] Application is added to the scheduler and is not yet"
    " activated. {}.  Details : AM Partition = <DEFAULT_PARTITION>; AM Resource Request ="
    " <memory:64, vCores:1>; Queue Resource Limit for AM = <memory:409, vCores:9>; User AM"
    " Resource Limit of the queue = <memory:128, vCores:9>; Queue AM Resource Usage ="
    " <memory:400, vCores:2>; "
)


def app(number: int = 1, **more) -> Report:
    fields = {
        "id": f"application_1_{number:04d}", "name": "", "user": "root",
        "queue": "root.research", "type": "DROMON", "state": "ACCEPTED",
        "final_status": "UNDEFINED", "diagnostics": "", "tags": (), "priority": 0, "host": "",
        "port": 0, "tracking_url": "", "original_tracking_url": "", "attempt": 1,
        "submitted": float(number), "launched": None, "ended": None, "progress": 0.0,
        "used": NOTHING, "reserved": NOTHING, "needed": NOTHING, "containers": 0,
        "reserved_containers": 0, "label": "", "master_label": "", "unmanaged": False,
        "log_aggregation": "", "expires": "",
    }  # fmt: skip
    return Report(**{**fields, **more})


def node(name: str = "a:1", total: Size | None = None, used: Size = NOTHING, **more) -> Node:
    fields = {
        "state": "RUNNING", "containers": 0, "labels": (), "rack": "", "web": "", "health": "",
    }  # fmt: skip
    return Node(id=name, total=total or Size(4096, 8), used=used, **{**fields, **more})


def queue(name: str, used: float = 0.1, state: str = "RUNNING", may_submit: bool = True) -> Queue:
    return Queue(
        name, f"root.{name}", 0.5, 1.0, used, state, 0, 0, NOTHING, NOTHING, ("*",), "",
        may_submit, False,
    )  # fmt: skip


ROOMY = Size(100_000, 100, {GPU: 100})
FREE = Limits(ROOMY, ROOMY, NOTHING, NOTHING, ROOMY, NOTHING, ROOMY, NOTHING, None)


def waiting(*asks: Ask, limits: Limits = FREE, **more) -> Situation:
    report = more.pop("report", app(state="RUNNING", containers=1))
    nodes = more.pop("nodes", (node(),))
    return Situation(report, asks=asks, limits={"": limits}, nodes=nodes, **more)


@pytest.mark.parametrize(
    ("state", "sentence", "reason"),
    [
        ("NEW", "the ResourceManager is still taking it in", "preparing"),
        ("SUBMITTED", "the ResourceManager is still taking it in", "preparing"),
        ("FINISHED", "it has ended (finished)", "unknown"),
        ("RUNNING", "runs, with 2 containers", "running"),
    ],
)
def test_states_that_need_no_reason(state, sentence, reason):
    found = explain(Situation(app(state=state, containers=2)))
    assert (found.sentence, found.reason) == (sentence, reason)


@pytest.mark.parametrize("state", ["ALLOCATED", "LAUNCHED"])
def test_a_master_on_its_way(state):
    found = explain(Situation(app(attempt=2), attempt_state=state))
    assert found.sentence == "its ApplicationMaster (attempt 2) starts and has not reported yet"
    assert found.reason == "about to start"


def test_the_masters_of_the_queue_have_used_up_their_share():
    me = app(9, diagnostics=NOT_ACTIVATED.format("Queue's AM resource limit exceeded"))
    peers = (
        app(1, user="alice", containers=1, used=Size(200, 1), tags=("dromon:bert-abc",)),
        app(2, user="bob", containers=3, used=Size(1200, 3), state="RUNNING"),
        app(3, queue="root.other", containers=5),  # holds nothing of this queue
        app(4),  # waits as we do, and longer
        app(5, priority=-1),
        app(10),
    )
    found = explain(
        Situation(
            me,
            asks=(Ask(Size(64, 1)),),
            peers=peers,
            queues=(
                queue("research"),
                queue("default", 0.25),
                queue("full", 1.0),
                queue("closed", state="STOPPED"),
                queue("theirs", may_submit=False),
            ),
        )
    )
    assert found.sentence == (
        "waits for its ApplicationMaster: the masters of queue research may use 409 MB and use"
        " 400 MB (bert-abc of alice, 200 MB, 1 CPU; application_1_0002 of bob, 1200 MB,"
        " 3 CPUs); it starts when one of them ends"
    )
    assert found.reason == "resources"
    assert found.position == 2
    assert found.holders == ("bert-abc", "application_1_0002")
    assert found.unblock == ("queue default would take it: 25% of its share is in use",)


def test_the_masters_of_the_user_have_used_up_theirs():
    me = app(9, diagnostics=NOT_ACTIVATED.format("User's AM resource limit exceeded"))
    limits = replace(FREE, user_masters=Size(128, 1))
    peers = (app(1, containers=1, used=Size(128, 1)), app(2, user="bob", containers=1))
    found = explain(Situation(me, asks=(Ask(Size(64, 1)),), limits={"": limits}, peers=peers))
    assert found.sentence == (
        "waits for its ApplicationMaster: the masters of root in queue research may use 128 MB"
        " and use 128 MB (application_1_0001 of root, 128 MB, 1 CPU); it starts when that one"
        " ends"
    )


def test_a_limit_that_has_no_name_here_is_told_in_yarns_words():
    me = app(diagnostics=NOT_ACTIVATED.format("Parallel applications limit"))
    found = explain(Situation(me))
    assert found.sentence == (
        "waits for its ApplicationMaster: Application is added to the scheduler and is not yet"
        " activated. Parallel applications limit"
    )
    assert (found.reason, found.position) == ("order", 1)


def test_many_holders_are_counted_not_listed():
    me = app(9, diagnostics=NOT_ACTIVATED.format("Queue's AM resource limit exceeded"))
    peers = tuple(app(n, containers=1) for n in range(1, 6))
    found = explain(Situation(me, peers=peers))
    assert "; 2 more)" in found.sentence
    assert len(found.holders) == 5


def test_without_the_pages_yarns_own_sentence_is_left():
    said = (
        "[now] Application is Activated, waiting for resources to be assigned for AM.  Details : x"
    )
    found = explain(Situation(app(diagnostics=said), nodes=(node(),)))
    assert found.sentence == (
        "waits for its ApplicationMaster: Application is Activated, waiting for resources to be"
        " assigned for AM"
    )


# --- containers


def test_a_label_that_no_running_node_has():
    labelled = node("b:1", labels=("gpu",), state="LOST")
    found = explain(waiting(Ask(Size(64, 1), label="gpu"), nodes=(node(), labelled)))
    assert found.sentence == (
        "waits for 1 container of 64 MB, 1 CPU: no running node has the label gpu"
    )
    assert found.reason == "impossible"


def test_nodes_of_a_label_are_for_those_who_ask_for_it_unless_they_are_shared():
    situation = waiting(Ask(Size(64, 1)), nodes=(node(labels=("gpu",)),))
    assert "every running node is reserved for a label" in explain(situation).sentence
    shared = replace(situation, shared_labels=frozenset({"gpu"}))
    assert explain(shared).reason == "about to start"


def test_no_node_runs_at_all():
    found = explain(waiting(Ask(Size(64, 1)), nodes=(node(state="LOST"),)))
    assert "no node of the cluster is running" in found.sentence


def test_no_node_is_large_enough():
    nodes = (node("a:1"), node("b:1", Size(4096, 8, {GPU: 2})))
    found = explain(waiting(Ask(Size(64, 1, {GPU: 4})), nodes=nodes))
    assert found.sentence == (
        "waits for 1 container of 64 MB, 1 CPU, 4 yarn.io/gpu: no node is large enough;"
        " b:1 has 4096 MB, 8 CPUs, 2 yarn.io/gpu"
    )


def test_a_host_it_insists_on_is_not_there():
    found = explain(waiting(Ask(Size(64, 1), places=("gone",))))
    assert found.sentence.endswith("it insists on gone, and no such node is running")
    assert explain(waiting(Ask(Size(64, 1), places=("a",)))).reason == "about to start"


def test_a_queue_at_its_maximum():
    limits = replace(FREE, maximum=Size(2048, 16), used=Size(1536, 3))
    peer = app(2, user="bob", containers=2, used=Size(1536, 3), state="RUNNING")
    found = explain(waiting(Ask(Size(1024, 1), 4), limits=limits, peers=(peer,)))
    assert found.sentence == (
        "waits for 4 containers of 1024 MB, 1 CPU: queue research may grow to 2048 MB and uses"
        " 1536 MB (application_1_0002 of bob, 1536 MB, 3 CPUs); it goes on when that one ends"
    )
    assert found.missing == {"memory": 3584 * 2**20}
    alone = explain(waiting(Ask(Size(1024, 1), 4), limits=limits))
    assert alone.sentence.endswith("and uses 1536 MB, all of it its own")


def test_a_user_at_his_limit():
    limits = replace(FREE, user_limit=Size(491, 0), user_used=Size(512, 1))
    found = explain(waiting(Ask(Size(256, 1)), limits=limits))
    assert found.sentence == (
        "waits for 1 container of 256 MB, 1 CPU: root may use 491 MB, 1 CPU of queue research"
        " and uses 512 MB, 1 CPU, all of it here"
    )
    # The last container may go over the limit: who is under it is not held back by it.
    under = replace(limits, user_used=Size(400, 1))
    assert explain(waiting(Ask(Size(256, 1)), limits=under)).reason == "about to start"


def test_no_room_now_and_who_has_it():
    nodes = (
        node("a:1", used=Size(4000, 2)),
        node("b:1", Size(4096, 8, {GPU: 2}), Size(1024, 1, {GPU: 2})),
    )
    peers = (
        app(2, user="bob", queue="root.other", containers=2, used=Size(4000, 2)),
        app(3, user="eve", queue="root.other", containers=1, used=Size(1024, 1, {GPU: 2})),
    )
    found = explain(waiting(Ask(Size(512, 1, {GPU: 1})), nodes=nodes, peers=peers, preempts=True))
    assert found.sentence == (
        "waits for 1 container of 512 MB, 1 CPU, 1 yarn.io/gpu: no node has room for 512 MB,"
        " 1 CPU, 1 yarn.io/gpu; the most is free on b:1, 3072 MB, 7 CPUs"
        " (application_1_0003 of eve, 1024 MB, 1 CPU, 2 yarn.io/gpu)"
    )
    assert (found.holders, found.missing) == (("application_1_0003",), {"gpus": 1.0})
    assert found.unblock == (
        "its queue is below its share: YARN takes containers from other queues for it",
    )


def test_a_queue_over_its_share_is_promised_nothing():
    limits = replace(FREE, guaranteed=Size(100, 1))
    full = (node(used=Size(4096, 8)),)
    found = explain(waiting(Ask(Size(512, 1)), nodes=full, limits=limits, preempts=True))
    assert found.reason == "resources"
    assert found.unblock == ()
    below = explain(waiting(Ask(Size(512, 1)), nodes=full, preempts=False))
    assert (below.reason, below.unblock) == ("resources", ())


def test_a_node_that_is_kept_for_it():
    me = app(state="RUNNING", containers=1, reserved_containers=1, reserved=Size(512, 1))
    found = explain(waiting(Ask(Size(512, 1)), nodes=(node(used=Size(4000, 1)),), report=me))
    assert found.sentence.endswith("YARN keeps a node free for it until there is room")


def test_of_several_asks_the_one_that_is_held_back_is_told():
    asks = (Ask(Size(64, 1), 2), Ask(Size(9999, 1)))
    assert "no node is large enough" in explain(waiting(*asks)).sentence
    assert explain(waiting(*asks[:1])).sentence == (
        "waits for 2 more containers: there is room, the next beats bring them"
    )


# --- the pages


def test_asks_in_the_pages_words():
    size = {
        "memory": 64,
        "vCores": 1,
        "resourceInformations": {
            "resourceInformation": [
                {"name": "memory-mb", "value": 64},
                {"name": GPU, "value": 2},
            ]
        },
    }
    ask = {"priority": 1, "allocationRequestId": 7, "capability": size, "numContainers": 3}
    loose = {**ask, "resourceName": "*", "relaxLocality": True, "nodeLabelExpression": "gpu"}
    found = asks_of({"app": {"resourceRequests": loose}})  # a list of one
    assert found == (Ask(Size(64, 1, {GPU: 2}), 3, "gpu"),)
    strict = [
        {**ask, "resourceName": "*", "relaxLocality": False},
        {**ask, "resourceName": "/rack", "relaxLocality": False},
        {**ask, "resourceName": "host7"},
    ]
    (one,) = asks_of({"app": {"resourceRequests": strict}})
    assert one.places == ("host7",)
    done = {**loose, "numContainers": 0}
    for nothing in (None, {}, {"app": None}, {"app": {"resourceRequests": [done]}}):
        assert asks_of(nothing) == ()


def page(leaf):
    top = {"type": "capacityScheduler", "queueName": "root", "queues": {"queue": leaf}}
    return {"scheduler": {"schedulerInfo": top}}


def test_limits_in_the_pages_words():
    leaf = {
        "queueName": "research",
        "queuePath": "root.research",
        "userLimitFactor": 0.5,
        "capacities": {
            "queueCapacitiesByPartition": [
                {
                    "partitionName": "",
                    "effectiveMinResource": {"memory": 1000, "vCores": 4},
                    "effectiveMaxResource": {"memory": 4000, "vCores": 16},
                }
            ]
        },
        "resources": {
            "resourceUsagesByPartition": {
                "partitionName": "",
                "used": {"memory": 300, "vCores": 3},
                "amUsed": {"memory": 100, "vCores": 1},
                "amLimit": {"memory": 200, "vCores": 2},
                "userAmLimit": {"memory": 0, "vCores": 0},
            }
        },
        "users": {
            "user": {
                "username": "root",
                "resources": {
                    "resourceUsagesByPartition": [
                        {
                            "partitionName": "",
                            "used": {"memory": 200, "vCores": 2},
                            "amUsed": {"memory": 64, "vCores": 1},
                            "amLimit": {"memory": 150, "vCores": 1},
                        }
                    ]
                },
            }
        },
    }
    expected = Limits(
        guaranteed=Size(1000, 4),
        maximum=Size(4000, 16),
        used=Size(300, 3),
        masters=Size(100, 1),
        masters_limit=Size(200, 2),
        user_masters=Size(64, 1),
        user_masters_limit=Size(150, 1),
        user_used=Size(200, 2),
        user_limit=Size(500, 2),
    )
    assert limits_of(page(leaf), "root.research", "root") == {"": expected}
    assert limits_of(page([leaf]), "research", "root") == {"": expected}
    stranger = limits_of(page(leaf), "research", "eve")
    assert stranger is not None
    assert stranger[""].user_used == NOTHING
    assert limits_of(page(leaf), "nowhere", "root") is None
    assert limits_of({"scheduler": {"schedulerInfo": {"type": "fairScheduler"}}}, "x", "y") is None
    assert limits_of(None, "x", "y") is None
