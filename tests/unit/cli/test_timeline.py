"""A job's events, told in words."""

from dromon.cli.timeline import moment, told


def event(kind, time=0.0, **detail):
    return {"time": time, "event": kind, "detail": detail}


def texts(*entries):
    return [line.split("  ", 1)[1] for line in told(entries)]


def test_events_become_sentences_in_their_order():
    entries = (
        {"time": 0.0, "event": "Submitted"},
        event("Prepared"),
        event("Placed", members=["worker-0"]),
        event("MemberStarted", member="worker-0", run=1, pid=9),
        event("StopRequested", by="ada", grace=10.0),
        event("MemberExited", member="worker-0", run=1, exit={"signal": 15, "code": None}),
    )
    assert texts(*entries) == [
        "submitted",
        "code and environment in place",
        "placed: worker-0",
        "started: worker-0",
        "asked to stop by ada, grace 10s",
        "ended with signal 15: worker-0",
    ]


def test_what_happens_to_several_members_in_a_row_is_one_line():
    ready = [event("MemberReady", member=f"worker-{i}") for i in range(3)]
    many = [event("MemberReady", member=f"worker-{i}") for i in range(64)]
    assert texts(*ready) == ["ready: worker-0, worker-1, worker-2"]
    assert texts(*many) == ["ready: 64 members"]
    names = [f"worker-{i}" for i in range(64)]
    assert texts(event("MembersReady", members=names[:2])) == ["ready: worker-0, worker-1"]
    assert texts(event("MembersReady", members=names)) == ["ready: 64 members"]


def test_members_that_end_differently_are_told_apart():
    entries = [
        event("MemberExited", member=f"worker-{i}", exit={"code": code})
        for i, code in enumerate((0, 0, 3))
    ]
    assert texts(*entries) == ["ended with 0: worker-0, worker-1", "ended with 3: worker-2"]


def test_an_event_without_words_of_its_own_is_still_told():
    assert texts(event("MemberLost", member="ps-0", message="its agent died"), event("Tick")) == [
        "lost (its agent died): ps-0"
    ]
    assert texts(event("PreemptRequested")) == ["preempt requested"]


def test_a_line_starts_with_the_time_of_its_first_event():
    entries = [event("MemberReady", 5.0, member="a"), event("MemberReady", 9.0, member="b")]
    assert list(told(entries)) == [f"{moment(5.0)}  ready: a, b"]
