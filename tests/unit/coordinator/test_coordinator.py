"""The coordinator: agents' messages in, effects out."""

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


def test_all_exits_finish_the_job():
    made = running()
    made.on_message(100, "worker-0", 1, {"op": "exited", "exit": EXIT_OK}, 4.0)
    effects = made.on_message(101, "worker-1", 1, {"op": "exited", "exit": EXIT_OK}, 4.0)
    assert [e.state for e in effects if isinstance(e, ev.Finish)] == ["succeeded"]


def test_a_beat_is_remembered_and_not_kept():
    made = running()
    assert made.on_message(100, "worker-0", 1, {"op": "beat", "memory": 5}, 9.0) == []
    assert made.beats["worker-0"].memory == 5
