"""What the scheduler is told of a site file."""

from dromon.sched.rules import Budget, PriorityRule, QueueRule, Reservation, Rules, UserRule
from dromon.site.file import load_site
from dromon.site.rules import SPARE, notes, rules_of

SITE = """\
queues:
  lab: {weight: 3, deserved: }
  vision:
    parent: lab
    deserved: {gpus: {a100: 2}, cpus: 8}
    guarantee: {gpus: 1}
    limit: {gpus: {a100: 3}, memory: 1GiB}
    user_limit: {gpus: 1}
    max_running: 4
    max_queued: 9
    user_max_running: 2
    user_max_queued: 3
    max_duration: 2d
    budget: {week: 100}
    user_budget: {day: 10, month: 50}
    non_preemptible: false
    aging: 1.5
    open: false
priorities: {low: 1, urgent: {value: 9, user_budget: {week: 5}}}
users: {ann: {weight: 2, limit: {gpus: 4}, budget: {month: 8}}}
reservations:
  paper: {start: 2026-11-20T08:00Z, end: 2026-11-20T09:00+00:00, gpus: {a100: 2}, queue: vision,
          release_after: 30m}
half_life: 7d
min_run_time: 5m
policy: fifo
"""


def test_every_key_reaches_the_scheduler():
    assert rules_of(load_site(SITE.replace(", deserved: ", ""), "s")) == Rules(
        queues=(
            QueueRule("lab", weight=3.0),
            QueueRule(
                "vision",
                parent="lab",
                deserved={"cpus": 8.0, "gpus.a100": 2, "gpus": 2},
                guarantee={"gpus": 1},
                limit={"memory": 2**30, "gpus.a100": 3},
                user_limit={"gpus": 1},
                max_running=4,
                max_queued=9,
                user_max_running=2,
                user_max_queued=3,
                max_duration=172800.0,
                budgets=(
                    Budget(100, "week"),
                    Budget(10, "day", "user"),
                    Budget(50, "month", "user"),
                ),
                non_preemptible=False,
                aging=1.5,
                is_open=False,
            ),
            SPARE,
        ),
        priorities=(PriorityRule("low", 1), PriorityRule("urgent", 9, 5.0)),
        users=(UserRule("ann", 2.0, {"gpus": 4}, (Budget(8, "month", "user"),)),),
        reservations=(
            Reservation("paper", 1795161600.0, 1795165200.0, 2, "a100", None, "vision", 1800.0),
        ),
        half_life=604800.0,
        min_run_time=300.0,
        policy="fifo",
    )


def test_nothing_said_is_the_default():
    assert rules_of(load_site("{}", "s")) == Rules()


def test_jobs_that_name_no_queue_are_owed_nothing_unless_the_file_says_otherwise():
    assert rules_of(load_site("queues: {a: }", "s")).queues == (QueueRule("a"), SPARE)
    assert rules_of(load_site("queues: {default: }", "s")).queues == (QueueRule("default"),)


def test_what_has_an_effect_on_volcano_only_is_said():
    site = load_site(
        "queues: {a: {reclaimable: false, priority: 2}}\n"
        "priorities: {b: {value: 1, preempt: never}}",
        "s",
    )
    assert [note.partition(":")[0] for note in notes(site)] == ["queue a", "queue a", "priority b"]
    assert notes(load_site(SITE.replace(", deserved: ", ""), "s")) == []
