"""Who is held by which cap, what that counts, and when it will be lifted."""

import pytest

from dromon.sched import events
from dromon.sched.admit import admit
from dromon.sched.asks import RoleAsk
from dromon.sched.explain import explain
from dromon.sched.rules import Budget, PriorityRule, QueueRule, Rules, UserRule

HOUR = 3600.0


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (QueueRule("a", limit={"gpus": 1}), "queue a may have 1 GPU"),
        (QueueRule("a", user_limit={"gpus": 1}), "ann may have 1 GPU"),
        (QueueRule("a", max_running=1), "queue a may run 1 job"),
        (QueueRule("a", user_max_running=1), "ann may run 1 job"),
    ],
)
def test_cap_holds_a_job_and_nobody_behind_it(a_site, rule, words):
    site = a_site(rule, QueueRule("b"))
    site.submit("first")
    site.submit("held")
    site.submit("other", "b", "bob")
    assert sorted(site.go()) == ["first", "other"]
    why = explain(site.cluster, "held", site.now)
    assert why.reason == "cap"
    assert words in why.sentence
    assert why.sentence.endswith("; taken up by first")
    assert (why.holders, why.start) == (("first",), None)
    assert why.unblock[0] == "dromon stop first"
    assert "submit it to queue b" in why.unblock
    site.end("first")
    assert site.go() == ["held"]


def test_who_is_held_by_a_cap_is_told_when_enough_will_have_ended(a_site):
    site = a_site(QueueRule("a", limit={"gpus": 4}))
    for n in range(4):
        site.submit(f"a{n}", max_duration=(n + 1) * HOUR)
    site.go()
    site.submit("held", gpus=3, max_duration=HOUR)
    why = explain(site.cluster, "held", site.now)
    assert (why.reason, why.start, why.sure) == ("cap", 3 * HOUR, "likely")
    assert why.holders == ("a3", "a2", "a1", "a0")
    site.submit("longer", gpus=4, max_duration=HOUR)
    assert explain(site.cluster, "longer", site.now).start == 4 * HOUR


def test_who_is_held_by_one_cap_and_then_by_another_is_told_when_the_last_is_lifted(a_site):
    rule = QueueRule("a", user_limit={"gpus": 1}, max_running=2)
    site = a_site(rule, users=(UserRule("ann", limit={"gpus": 1}),))
    site.submit("mine", max_duration=HOUR)
    site.submit("other", user="bob", max_duration=3 * HOUR)
    site.go()
    site.submit("third", user="cid", max_duration=2 * HOUR)
    site.submit("held", max_duration=HOUR)
    assert explain(site.cluster, "third", site.now).start == HOUR
    assert explain(site.cluster, "held", site.now).start == HOUR


@pytest.mark.parametrize(("hours", "start"), [(2.0, 24 * HOUR), (0.0, None)])
def test_a_spent_budget_says_when_it_begins_anew(a_site, hours, start):
    site = a_site(QueueRule("a", budgets=(Budget(hours, "day"),)))
    if hours:
        site.submit("first", gpus=2, max_duration=30 * HOUR)
        site.go()
    site.now = 2 * HOUR
    site.submit("held", max_duration=HOUR)
    why = explain(site.cluster, "held", site.now)
    assert (why.reason, why.holders, why.start) == ("cap", (), start)


def test_nobody_is_said_to_be_in_the_way_of_a_drained_queue(a_site):
    site = a_site(QueueRule("a"), QueueRule("b"))
    site.submit("held")
    closed = Rules(queues=(QueueRule("a", is_open=False), QueueRule("b")))
    site.cluster.apply(events.RulesChanged(closed, site.now))
    why = explain(site.cluster, "held", site.now)
    assert why.sentence == "number 1 in the queue, held: queue a is drained"
    assert (why.holders, why.start, why.unblock) == ((), None, ("submit it to queue b",))


def test_what_a_guarantee_keeps_from_firm_jobs_is_there_for_those_that_give_way(a_site):
    site = a_site(QueueRule("a", deserved={"gpus": 8}), QueueRule("b", guarantee={"gpus": 4}))
    site.submit("firm", gpus=8, preemptible=False)
    why = explain(site.cluster, "firm", site.now)
    assert why.reason == "cap"
    assert "let it give way to others: `preemptible: true`" in why.unblock


def test_only_what_is_open_to_everybody_is_proposed(a_site):
    site = a_site(
        QueueRule("a", user_limit={"gpus": 1}), QueueRule("b", for_all=False), QueueRule("c"),
        priorities=(PriorityRule("boss", 99, for_all=False), PriorityRule("hasty", 9)),
    )  # fmt: skip
    for n in range(2):
        site.submit(f"a{n}")
        site.go()
    assert explain(site.cluster, "a1", site.now).unblock == (
        "dromon stop a0", "submit it to queue c"
    )  # fmt: skip
    site.end("a0", "a1")
    site.submit("half", "c", gpus=4)
    site.go()
    site.submit("all", "c", gpus=8)
    site.submit("late", "c")
    assert "submit it with priority hasty" in explain(site.cluster, "late", site.now).unblock


def test_no_queue_is_said_to_take_what_fits_nowhere(a_site):
    site = a_site(QueueRule("a"), QueueRule("b"), gpus=8)
    ask = (RoleAsk("worker", 1, 1, gpus=9),)
    refusal = admit(site.cluster, events.JobSubmitted("j", 1, 0.0, ask, queue="a"), 0.0)
    assert (refusal.text, refusal.dimension) == (
        "worker: n0 is the only node: needs 9 GPUs, has 8", ""
    )  # fmt: skip


def test_user_limit_holds_in_all_queues_together(a_site):
    site = a_site(QueueRule("a"), QueueRule("b"), users=(UserRule("ann", limit={"gpus": 2}),))
    site.submit("a1", gpus=2)
    site.submit("b1", "b")
    site.submit("b2", "b", "bob")
    assert sorted(site.go()) == ["a1", "b2"]


def test_budget_that_is_spent_comes_back_with_the_next_day(a_site):
    site = a_site(QueueRule("a", budgets=(Budget(2, "day"),)))
    site.submit("long", gpus=2)
    site.go()
    site.now = 1.5 * HOUR
    site.submit("next")
    assert site.go() == []
    assert "2 GPU-hours of this day" in explain(site.cluster, "next", site.now).sentence
    site.end("long")
    assert site.go() == []
    assert site.cluster.wakes(site.now) == 24 * HOUR
    site.now = 24 * HOUR
    assert site.go() == ["next"]


def test_class_has_a_budget_for_each_user(a_site):
    site = a_site(QueueRule("a"), priorities=(PriorityRule("urgent", 10, user_budget=1),))
    site.submit("first", priority=10)
    site.go()
    site.now = 2 * HOUR
    site.submit("ann-urgent", priority=10)
    site.submit("ann-normal")
    site.submit("bob-urgent", user="bob", priority=10)
    assert sorted(site.go()) == ["ann-normal", "bob-urgent"]
