"""The coordinator: agents' messages in, effects out."""

import pytest

from dromon.coordinator.coordinator import Coordinator, Keep, Send
from dromon.lifecycle import events as ev
from dromon.lifecycle.gang import Gang
from dromon.lifecycle.plan import GangPlan, RolePlan

EXIT_OK = {"code": 0, "cause": "success"}


def coordinator(replicas: int = 2, *, in_place: bool = False, **plan: object) -> Coordinator:
    role = RolePlan("worker", replicas, replicas)
    gang = Gang(GangPlan("j-aaaaaa", "torch", (role,), **plan), prepared=True)  # type: ignore[arg-type]
    return Coordinator(gang, shapes={"worker": (1, 0)}, in_place=in_place)


def placed(**options: object) -> Coordinator:
    made = coordinator(**options)  # type: ignore[arg-type]
    made.on_event(ev.Placed(("worker-0", "worker-1")), 0.0)
    return made


def ready(made: Coordinator, index: int, now: float = 1.0) -> list[object]:
    member = f"worker-{index}"
    made.on_hello(100 + index, member, 1)
    message = {"op": "ready", "host": "127.0.0.1", "ports": [4000 + index]}
    return list(made.on_message(100 + index, member, 1, message, now))


def running() -> Coordinator:
    made = placed()
    for index in range(2):
        ready(made, index)
    for index in range(2):
        made.on_message(100 + index, f"worker-{index}", 1, {"op": "started", "pid": 7}, 2.0)
    return made


def test_an_event_is_kept_before_anything_follows_from_it():
    effects = coordinator().on_event(ev.Placed(("worker-0", "worker-1")), 0.0)
    assert isinstance(effects[0], Keep)
    assert effects[1:] == [ev.Launch("worker-0", 1, 1), ev.Launch("worker-1", 1, 1)]


def test_the_world_goes_to_everybody_once_the_last_is_ready():
    made = placed()
    assert [e for e in ready(made, 1) if isinstance(e, Send)] == []
    sent = [e for e in ready(made, 0) if isinstance(e, Send)]
    assert sorted(s.peer for s in sent) == [100, 101]
    world = sent[0].message["world"]
    assert [m[:4] for m in world["members"]] == [
        ["worker", 0, 0, "127.0.0.1"],
        ["worker", 1, 1, "127.0.0.1"],
    ]


def test_an_agent_that_was_away_while_the_barrier_opened_gets_the_world_when_it_is_back():
    made = placed()
    ready(made, 0)
    made.on_gone(100)
    ready(made, 1)
    sent = [e for e in ready(made, 0) if isinstance(e, Send)]
    assert [(s.peer, s.message["op"]) for s in sent] == [(100, "world")]


def test_a_stop_owed_to_an_absent_agent_is_delivered_at_its_next_hello():
    made = running()
    made.on_gone(100)
    effects = made.on_event(ev.StopRequested("ann"), 3.0)
    assert [e.peer for e in effects if isinstance(e, Send)] == [101]
    (sent,) = made.on_hello(200, "worker-0", 1)
    assert isinstance(sent, Send)
    assert (sent.peer, sent.message["op"]) == (200, "stop")


def test_a_stop_is_still_owed_after_a_replay():
    made = coordinator()
    again = coordinator()
    for now, event in [
        (0.0, ev.Placed(("worker-0", "worker-1"))),
        (1.0, ev.StopRequested("ann")),
    ]:
        made.on_event(event, now)
        again.replay(event, now)
    (sent,) = again.on_hello(5, "worker-0", 1)
    assert isinstance(sent, Send)
    assert sent.message["op"] == "stop"


def test_an_exit_heard_twice_is_one_exit_and_is_acknowledged_twice():
    made = running()
    message = {"op": "exited", "exit": EXIT_OK}
    first = made.on_message(100, "worker-0", 1, message, 4.0)
    second = made.on_message(100, "worker-0", 1, message, 5.0)
    assert [e for e in second if isinstance(e, Keep)] == []
    assert [e.message for e in first if isinstance(e, Send)] == [{"op": "bye"}]
    assert [e.message for e in second if isinstance(e, Send)] == [{"op": "bye"}]


def test_a_stale_run_is_told_to_end_and_leave():
    sent = running().on_hello(9, "worker-0", 99)
    assert [s.message["op"] for s in sent if isinstance(s, Send)] == ["stop", "bye"]


def test_agents_that_stay_in_place_are_told_to_start_over():
    made = placed(in_place=True, max_retries=1, backoff=0.0)
    for index in range(2):
        ready(made, index)
    failed = {"op": "exited", "exit": {"code": 1, "cause": "user_error"}}
    made.on_message(100, "worker-0", 1, failed, 3.0)
    effects = made.on_message(101, "worker-1", 1, failed, 3.0)
    effects += made.on_event(ev.Tick(), 4.0)
    sent = [(e.peer, e.message["op"]) for e in effects if isinstance(e, Send)]
    assert sorted(sent) == [(100, "again"), (101, "again")]


def in_place(exit: dict[str, object] | None = None) -> Coordinator:
    """Both have run once; with an exit, worker-0 has run 2 and nobody is there to run it."""
    policies = {"member_failed": "restart_member"}
    made = placed(in_place=True, policies=policies, max_retries=9, backoff=0.0)
    for index in range(2):
        ready(made, index)
    if exit is not None:
        made.on_gone(100)
        made.on_event(ev.MemberExited("worker-0", 1, exit), 3.0)
    return made


FAILED = {"code": 1, "cause": "user_error"}
AGAIN = {"op": "again", "run": 2, "attempt": 1}
STALE = {"op": "stop", "grace": 0.0, "reason": "stale"}
BYE = {"op": "bye"}


@pytest.mark.parametrize(
    ("exit", "run", "told"),
    [
        # The member was launched and waits for whoever comes: a new place, or the old agent.
        (FAILED, 0, [AGAIN]),
        (FAILED, 1, [AGAIN]),
        (FAILED, 2, []),
        # Somebody else runs it, or a later coordinator sent this one.
        (None, 0, []),
        (None, 1, []),
        (None, 2, [STALE, BYE]),
        (FAILED, 3, [STALE, BYE]),
    ],
)
def test_who_comes_to_a_place_that_stays_is_told_what_it_needs(exit, run, told):
    effects = in_place(exit).on_hello(7, "worker-0", run)
    assert [e.message for e in effects if isinstance(e, Send)] == told


def test_an_agent_in_place_whose_member_has_ended_ends_what_it_runs_and_stays():
    made = placed(in_place=True, max_retries=1, backoff=9.0)
    for index in range(2):
        ready(made, index)
    made.on_message(100, "worker-0", 1, {"op": "exited", "run": 1, "exit": FAILED}, 3.0)
    assert [e.message for e in made.on_hello(7, "worker-0", 1)] == [STALE]
    assert made.peers["worker-0"] == 7
    assert [e.message for e in running_then_ended().on_hello(7, "worker-0", 1)] == [STALE, BYE]


def running_then_ended() -> Coordinator:
    made = running()
    made.on_message(100, "worker-0", 1, {"op": "exited", "exit": EXIT_OK}, 4.0)
    return made


def test_nobody_stays_in_place_once_the_job_is_over():
    made = placed(in_place=True)
    effects = made.on_event(ev.StopRequested("ann"), 1.0)
    for index in range(2):
        member = f"worker-{index}"
        effects += made.on_event(ev.MemberLost(member, 1, "never came"), 2.0)
    assert made.gang.is_terminal
    assert [e.message for e in made.on_hello(7, "worker-0", 0)] == [STALE, BYE]


def test_an_exit_said_again_is_not_taken_for_that_of_the_next_run():
    made = in_place(FAILED)
    made.on_hello(7, "worker-0", 1)
    said = {"op": "exited", "run": 1, "exit": FAILED}
    assert made.on_message(7, "worker-0", 1, said, 5.0) == []
    assert made.gang.members["worker-0"].state == "launched"


def test_messages_are_about_the_run_they_name_not_the_one_of_the_hello():
    made = in_place(FAILED)
    made.on_hello(7, "worker-0", 0)
    message = {"op": "ready", "run": 2, "host": "h", "ports": []}
    effects = made.on_message(7, "worker-0", 0, message, 5.0)
    assert [e.message["op"] for e in effects if isinstance(e, Send)] == ["world"]


def test_a_sign_of_life_is_answered_and_nothing_is_kept():
    for made in (running(), in_place()):
        effects = made.on_message(100, "worker-0", 1, {"op": "alive", "run": 1, "asked": 5.5}, 9.0)
        assert effects == [Send(100, {"op": "alive", "asked": 5.5})]


def test_all_exits_finish_the_job():
    made = running()
    made.on_message(100, "worker-0", 1, {"op": "exited", "exit": EXIT_OK}, 4.0)
    effects = made.on_message(101, "worker-1", 1, {"op": "exited", "exit": EXIT_OK}, 4.0)
    assert [e.state for e in effects if isinstance(e, ev.Finish)] == ["succeeded"]


def test_when_work_was_saved_is_remembered_and_never_goes_back():
    made = running()
    assert made.on_message(100, "worker-0", 1, {"op": "saved", "ago": 2.0}, 9.0) == []
    made.on_message(100, "worker-0", 1, {"op": "saved", "ago": 5.0}, 10.0)
    assert made.saved == 7.0


def test_a_beat_is_remembered_and_not_kept():
    made = running()
    assert made.on_message(100, "worker-0", 1, {"op": "beat", "memory": 5}, 9.0) == []
    assert made.beats["worker-0"].memory == 5
