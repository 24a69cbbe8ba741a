"""What comes from another user is taken only in the very shape it should have."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.engines.local.shared import wire
from dromon.sched.asks import RoleAsk, Share, Waiting
from dromon.sched.events import JobSubmitted

JOB = JobSubmitted(
    "unet-abc123", 3, 12.5, (RoleAsk("worker", 2, 1, 0.5, 1 << 30, 1, "a100"),), -5, True, "ann"
)


def sent(value: object) -> object:
    return json.loads(json.dumps(wire.plain(value)))


@pytest.mark.parametrize(
    "value", [JOB, Share("vm", 0.5, None, ("GPU-1",)), Waiting("so", "order", 1, ("x",))]
)
def test_values_of_the_scheduler_come_back_as_they_were(value: object):
    assert wire.value(type(value), sent(value)) == value


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("id", 5), ("id", "x" * 5000), ("seq", True), ("seq", 1.5), ("time", "now"), ("time", -1.0),
        ("ask", {}), ("ask", [1]), ("ask", [{"role": "w"}]), ("priority", "high"),
        ("preemptible", 1), ("stranger", 1),
    ],
)  # fmt: skip
def test_another_shape_is_not_taken(field: str, said: object):
    data = {**dict(sent(JOB)), field: said}  # type: ignore[call-overload]
    with pytest.raises(wire.Misspoken):
        wire.value(JobSubmitted, data)


@pytest.mark.parametrize("said", [-1, float("inf"), float("nan"), 1e300, "1", None, True])
def test_nobody_asks_for_less_than_nothing_or_for_more_than_there_can_be(said: object):
    data = {"role": "worker", "replicas": 1, "min": 1, "cpus": said}
    with pytest.raises(wire.Misspoken):
        wire.value(RoleAsk, data)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "ask", "role", "seq"]), inside, max_size=3)
    ),
    max_leaves=8,
)


@given(anything)
def test_whatever_is_said_is_a_job_or_misspoken(data: object):
    try:
        assert isinstance(wire.value(JobSubmitted, data), JobSubmitted)
    except wire.Misspoken:
        pass
