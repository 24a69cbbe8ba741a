"""Queues, users, caps: who goes first when there are rules, and who is held."""

import pytest

from dromon.sched import events
from dromon.sched.admit import admit
from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.cluster import Cluster
from dromon.sched.decide import Preempt, Refuse, Shrink, Start, decide, dry_preempt
from dromon.sched.explain import explain
from dromon.sched.rules import Budget, QueueRule, Reservation, Rules

HOUR = 3600.0
GIB = 2**30


def test_queue_with_the_smaller_share_goes_first(a_site):
    site = a_site(QueueRule("a"), QueueRule("b"), gpus=4)
    for n in range(4):
        site.submit(f"a{n}", "a")
    for n in range(4):
        site.submit(f"b{n}", "b")
    assert site.go() == ["a0", "b0", "a1", "b1"]


def test_weights_divide_what_there_is(a_site):
    site = a_site(QueueRule("a", weight=3), QueueRule("b", weight=1), gpus=8)
    for n in range(8):
        site.submit(f"a{n}", "a")
        site.submit(f"b{n}", "b")
    started = site.go()
    assert sum(id.startswith("a") for id in started) == 6


def test_children_share_what_their_parent_has(a_site):
    queues = (QueueRule("x"), QueueRule("x1", "x"), QueueRule("x2", "x"), QueueRule("y"))
    site = a_site(*queues, gpus=8)
    for queue in ("x1", "x2", "y"):
        for n in range(8):
            site.submit(f"{queue}-{n}", queue)
    counts = [sum(id.startswith(q) for id in site.go()) for q in ("y",)]
    assert counts == [4]


def test_users_of_a_queue_take_turns_by_what_they_hold(a_site):
    site = a_site(QueueRule("a"), gpus=4)
    for n in range(4):
        site.submit(f"ann{n}", user="ann")
    for n in range(4):
        site.submit(f"bob{n}", user="bob")
    assert site.go() == ["ann0", "bob0", "ann1", "bob1"]


def test_last_nights_hog_waits_where_past_usage_counts(a_site):
    site = a_site(QueueRule("a"), QueueRule("b"), gpus=1, half_life=10 * HOUR)
    site.submit("hog", "a")
    site.go()
    site.now = 8 * HOUR
    site.end("hog")
    site.submit("again", "a")
    site.submit("other", "b")
    assert site.go() == ["other"]


# ---- refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "more", "words"),
    [
        (QueueRule("a", limit={"gpus": 1}), {"gpus": 2}, "may have at most 1 GPU"),
        (QueueRule("a", max_duration=HOUR), {"max_duration": 2 * HOUR}, "queue b would take it"),
        (QueueRule("a", non_preemptible=False), {"preemptible": False}, "only preemptible"),
        (QueueRule("a", is_open=False), {}, "is drained"),
        (QueueRule("a", max_queued=0), {}, "0 jobs waiting"),
        (QueueRule("a"), {"queue": "nowhere"}, "no queue nowhere"),
    ],
)
def test_what_can_never_run_is_refused_with_the_reason(a_site, rule, more, words):
    site = a_site(rule, QueueRule("b"))
    event = events.JobSubmitted(
        "x", 1, 0.0, (RoleAsk("w", 1, 1, gpus=more.get("gpus", 1)),), user="ann",
        queue=more.get("queue", "a"), preemptible=more.get("preemptible", True),
        max_duration=more.get("max_duration"),
    )  # fmt: skip
    refusal = admit(site.cluster, event, 0.0)
    assert refusal is not None
    assert words in refusal.text
    site.cluster.apply(event)
    (decision,) = site.decide()
    assert isinstance(decision, Refuse)
    assert words in decision.reason


def test_what_can_never_run_takes_no_place_in_a_queue(a_site):
    site = a_site(QueueRule("a", user_limit={"gpus": 2}, max_queued=1), nodes=0)
    site.submit("never", gpus=3)
    site.submit("next")
    site.cluster.apply(events.NodeJoined("late", 64, 2**40, (Gpu("0"),)))
    refusal, start = site.decide()
    assert isinstance(refusal, Refuse)
    assert isinstance(start, Start)
    assert (refusal.job, start.job) == ("never", "next")


def test_drained_queue_keeps_what_waits_and_starts_nothing(a_site):
    site = a_site(QueueRule("a"), QueueRule("b"))
    site.submit("x")
    site.cluster.apply(events.RulesChanged(Rules((QueueRule("a", is_open=False), QueueRule("b")))))
    assert site.go() == []
    site.cluster.apply(events.RulesChanged(Rules((QueueRule("a"), QueueRule("b")))))
    assert site.go() == ["x"]


# ---- preemption and reclaim ---------------------------------------------------------------------


def test_priority_preempts_only_in_its_own_queue(a_site):
    site = a_site(QueueRule("a"), QueueRule("b"), gpus=2)
    site.submit("a1", "a")
    site.submit("b1", "b")
    site.go()
    site.submit("urgent", "b", gpus=1, priority=5)
    assert site.gone() == ["b1"]


def test_victim_with_the_least_work_lost_goes(a_site):
    site = a_site(QueueRule("a"), gpus=2)
    site.submit("old")
    site.go()
    site.now = HOUR
    site.submit("young")
    site.go()
    site.now = 2 * HOUR
    site.cluster.apply(events.JobCheckpointed("old", 1.9 * HOUR))
    site.submit("urgent", priority=5)
    assert site.gone() == ["old"]


def test_nobody_is_sent_away_before_its_minimum_run_time(a_site):
    site = a_site(QueueRule("a"), gpus=1, min_run_time=600.0)
    site.submit("low")
    site.go()
    site.now = 60.0
    site.submit("high", priority=5)
    assert site.gone() == []
    assert site.cluster.wakes(site.now) == 600.0
    site.now = 600.0
    assert site.gone() == ["low"]


def test_what_is_borrowed_comes_back_even_from_those_protected(a_site):
    site = a_site(QueueRule("a"), QueueRule("b"), gpus=4, min_run_time=HOUR)
    for n in range(4):
        site.submit(f"a{n}", preemptible=False)
    site.go()
    site.submit("b0", "b", gpus=2)
    assert len(site.gone()) == 2
    assert [d.reason for d in site.decide() if isinstance(d, Preempt)] == ["reclaim", "reclaim"]


def test_room_that_was_made_is_kept_for_whom_it_was_made(a_site):
    site = a_site(QueueRule("a"), QueueRule("b"), gpus=2)
    site.submit("a0", gpus=2)
    site.go()
    site.submit("b0", "b")
    site.go()
    site.cluster.apply(events.JobReleased("a0", site.now))
    site.submit("a1", "a", "zoe")
    assert site.go()[0] == "b0"


def test_guarantee_is_lent_only_to_preemptible_jobs(a_site):
    owed = QueueRule("b", guarantee={"gpus": 2})
    site = a_site(QueueRule("a", deserved={"gpus": 4}), owed, gpus=4)
    site.submit("firm", gpus=3, preemptible=False)
    site.submit("soft", gpus=3)
    assert site.go() == ["soft"]


def test_dry_run_of_preemption_changes_nothing(a_site):
    site = a_site(QueueRule("a"), gpus=1)
    site.submit("low")
    site.go()
    site.submit("high", priority=5)
    assert [d.job for d in dry_preempt(site.cluster, "high", 0.0)] == ["low"]
    assert site.cluster.jobs["low"].state == "running"


# ---- elastic gangs, parts of GPUs ---------------------------------------------------------------


def test_elastic_members_are_given_back_before_any_gang_is_broken(a_site):
    site = a_site(QueueRule("a"), gpus=4)
    site.submit("elastic", members=4, least=2)
    site.go()
    site.submit("next", gpus=1)
    assert [(type(d), d.job) for d in site.decide()] == [(Shrink, "elastic")]


def test_parts_share_one_device_and_whole_ones_do_not(a_site):
    site = a_site(QueueRule("a"), gpus=2)
    for n in range(3):
        site.submit(f"half{n}", gpus=0.5)
    site.submit("whole", gpus=1)
    assert site.go() == ["half0", "half1", "half2"]
    devices = [s.gpus for n in range(2) for s in site.cluster.jobs[f"half{n}"].placement.values()]
    assert devices == [("0",), ("0",)]
    site.end("half2")
    assert site.go() == ["whole"]


# ---- backfill and reservations ------------------------------------------------------------------


def test_shorter_job_passes_a_planned_one_and_a_longer_one_does_not(a_site):
    site = a_site(QueueRule("a"), gpus=4)
    site.submit("runs", gpus=3, max_duration=HOUR)
    site.go()
    site.submit("big", gpus=4, max_duration=HOUR)
    site.submit("long", gpus=1, max_duration=2 * HOUR)
    site.submit("short", gpus=1, max_duration=0.5 * HOUR)
    assert site.go() == ["short"]
    why = explain(site.cluster, "big", site.now)
    assert (why.start, why.sure) == (HOUR, "planned")


def test_reservation_is_kept_free_of_those_who_would_overrun(a_site):
    kept = Reservation("r", start=HOUR, end=3 * HOUR, gpus=3, user="bob", release_after=600.0)
    site = a_site(QueueRule("a"), gpus=4, reservations=(kept,))
    site.submit("long", gpus=2, max_duration=2 * HOUR)
    site.submit("short", gpus=2, max_duration=0.5 * HOUR)
    site.submit("bobs", gpus=2, user="bob", max_duration=2 * HOUR)
    assert "long" not in site.go()
    assert site.cluster.jobs["bobs"].state == "running"


def test_unused_reservation_is_released(a_site):
    kept = Reservation("r", start=HOUR, end=3 * HOUR, gpus=4, user="bob", release_after=600.0)
    site = a_site(QueueRule("a"), gpus=4, reservations=(kept,))
    site.now = HOUR
    site.submit("long", gpus=2)
    assert site.go() == []
    assert site.cluster.wakes(site.now) == HOUR + 600
    site.now = HOUR + 600
    assert site.go() == ["long"]


def test_drained_node_takes_nothing_new(a_site):
    site = a_site(QueueRule("a"), gpus=1, nodes=2)
    site.cluster.apply(events.NodeDrained("n0"))
    site.submit("x")
    site.submit("y")
    assert site.go() == ["x"]
    site.cluster.apply(events.NodeOpened("n0"))
    assert site.go() == ["y"]


def test_aging_lets_an_old_job_pass_a_higher_class(a_site):
    site = a_site(QueueRule("a", aging=1.0), gpus=1)
    site.submit("runs")
    site.go()
    site.submit("old")
    site.now = 3 * HOUR
    site.submit("new", priority=2, preemptible=False)
    site.end("runs")
    assert site.go() == ["old"]


def test_who_came_first_by_aging_is_not_sent_away_again_by_those_it_passed(a_site):
    site = a_site(QueueRule("a", aging=1.0), gpus=1)
    site.submit("runs")
    site.go()
    site.submit("old")
    site.now = 3 * HOUR
    site.submit("new", priority=2)
    site.end("runs")
    assert site.go() == ["old"]
    assert site.gone() == []
    site.submit("urgent", priority=4)
    assert site.gone() == ["old"]


# ---- why ----------------------------------------------------------------------------------------


def test_asking_why_leaves_everything_as_it_was(a_site):
    site = a_site(QueueRule("a"), gpus=2)
    for n in range(2):
        site.submit(f"runs{n}")
    site.go()
    site.submit("waits")
    before = {n: node.free for n, node in site.cluster.nodes.items()}
    explain(site.cluster, "waits", site.now)
    assert {n: node.free for n, node in site.cluster.nodes.items()} == before
    assert site.decide() == ()


def test_every_way_out_that_is_named_is_one(a_site):
    site = a_site(QueueRule("a"), QueueRule("b"), gpus=4)
    site.submit("runs", gpus=2)
    site.go()
    site.submit("waits", gpus=3)
    why = explain(site.cluster, "waits", site.now)
    assert [way.kind for way in why.ways][:2] == ["stop", "gpus"]
    site.end("runs")
    assert site.go() == ["waits"]


def test_decision_that_was_not_carried_out_is_made_again(a_site):
    site = a_site(QueueRule("a"), gpus=2)
    site.submit("x", gpus=2)
    first = site.decide()
    assert site.decide() == first
    site.submit("y")
    assert site.decide() == first
    assert site.go() == ["x"]


def test_whoever_a_guarantee_would_hold_sends_nobody_away(a_site):
    """What the others leave would be kept for their queue."""
    lent = QueueRule("a", guarantee={"gpus": 4}, deserved={"cpus": 1})
    site = a_site(lent, QueueRule("b", deserved={"gpus": 4}), nodes=0)
    devices = tuple(Gpu(str(i)) for i in range(4))
    site.cluster.apply(events.NodeJoined("n0", 4, 2**40, devices))
    ask = (RoleAsk("worker", 3, 3, cpus=0.5, gpus=1),)
    site.cluster.apply(events.JobSubmitted("lent", 1, 0.0, ask, preemptible=True, queue="a"))
    assert site.go() == ["lent"]
    ask = (RoleAsk("worker", 3, 3, cpus=1, gpus=1),)
    site.cluster.apply(events.JobSubmitted("firm", 2, 0.0, ask, queue="b"))
    assert site.gone() == []


def test_a_budget_that_will_be_spent_wakes_for_those_behind_whom_it_holds(a_site):
    site = a_site(QueueRule("a", budgets=(Budget(1.0, "day"),)), gpus=2)
    site.submit("runs", gpus=2)
    assert site.go() == ["runs"]
    site.submit("waits", gpus=2)
    assert site.cluster.wakes(site.now) == HOUR / 2


def test_a_new_budget_counts_what_runs_from_its_start(a_site):
    site = a_site(QueueRule("a"), gpus=2)
    site.submit("runs")
    assert site.go() == ["runs"]
    site.now = 2 * HOUR
    budget = Budget(1.0, "day")
    site.cluster.apply(events.RulesChanged(Rules((QueueRule("a", budgets=(budget,)),)), site.now))
    site.submit("waits")
    assert site.go() == []
    assert "has used" in explain(site.cluster, "waits", site.now).sentence


def test_members_that_may_only_be_somewhere_are_placed_first():
    cluster = Cluster()
    for name, labels in (("n0", ()), ("n1", ("fast",))):
        devices = tuple(Gpu(str(i)) for i in range(4))
        cluster.apply(events.NodeJoined(name, 64, 2**40, devices, frozenset(labels)))
    ask = (
        RoleAsk("ps", 2, 2, gpus=2),
        RoleAsk("worker", 1, 1, gpus=1, node_label="fast"),
    )
    cluster.apply(events.JobSubmitted("gang", 1, 0.0, ask))
    for seed in range(4):  # which of the nodes comes first
        assert [d.job for d in decide(cluster, 0.0, seed)] == ["gang"]


def test_how_many_of_a_users_jobs_may_wait_counts_for_all_queues_below(a_site):
    site = a_site(QueueRule("a", user_max_queued=1), QueueRule("a1", parent="a"),
                QueueRule("a2", parent="a"), gpus=1)  # fmt: skip
    site.submit("holder", "a1", user="bob")
    site.go()
    site.submit("first", "a1")
    site.submit("second", "a2")
    assert list(site.cluster.refused) == ["second"]
    ask = (RoleAsk("worker", 1, 1, gpus=1),)
    event = events.JobSubmitted("third", 9, 0.0, ask, preemptible=True, user="ann", queue="a2")
    refusal = admit(site.cluster, event, 0.0)
    assert refusal is not None
    assert refusal.dimension == ""  # `a1` is as full
    site.submit("other", "a2", user="bob")
    assert list(site.cluster.refused) == ["second"]


def test_who_would_borrow_comes_after_those_who_stay_within_what_they_deserve(a_site):
    """Otherwise they would send it away again at once."""
    for policy in ("fair", "fifo"):
        site = a_site(QueueRule("a"), QueueRule("b"), gpus=2, policy=policy)
        site.submit("b0", "b")
        site.go()
        site.submit("whole", "a", gpus=2)
        site.submit("b1", "b")
        site.end("b0")
        assert site.go() == ["b1"]
        site.end("b1")
        assert site.go() == ["whole"]


def test_a_queue_whose_next_job_would_borrow_keeps_its_order(a_site):
    for policy in ("fair", "fifo"):
        site = a_site(QueueRule("a"), QueueRule("b"), gpus=4, policy=policy)
        site.submit("large", "a", gpus=3)
        site.submit("small", "a", gpus=2)
        site.submit("other", "b", gpus=1)
        assert site.go() == ["other", "large"]


def test_who_would_borrow_is_planned_beside_those_who_stay_within(a_site):
    """`whole` could start in 100 s, were it not for `long`."""
    site = a_site(QueueRule("a"), QueueRule("b"), gpus=4, policy="fair")
    site.submit("a0", "a", gpus=1, max_duration=100.0)
    site.submit("b0", "b", gpus=1, max_duration=1e6)
    site.go()
    site.submit("whole", "a", gpus=3, max_duration=100.0)
    site.submit("long", "b", gpus=1, max_duration=1000.0)
    assert site.go() == ["long"]


def test_what_is_lent_in_a_decision_is_claimed_back_in_the_same(a_site):
    site = a_site(QueueRule("a"), QueueRule("b"), gpus=4, policy="fair")
    for id, queue, gpus in (("a0", "a", 1), ("b0", "b", 1), ("more", "a", 2)):
        site.submit(id, queue, gpus=gpus, max_duration=100.0)
    site.go()
    site.submit("b1", "b", gpus=2, max_duration=100.0)
    site.submit("a1", "a", gpus=4, max_duration=100.0)
    site.submit("a2", "a", max_duration=50.0)
    assert site.go() == []
    site.end("more")
    decisions = site.decide()
    assert [d.job for d in decisions if isinstance(d, Start)] == ["b1"]
    assert [(d.job, d.for_job) for d in decisions if isinstance(d, Preempt)] == [("b0", "a2")]
