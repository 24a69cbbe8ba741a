"""YARN wants containers back: idle ones first, members at work only when that is not enough."""

from hypothesis import given
from hypothesis import strategies as st

from dromon.engines.yarn.am.preemption import answer

HELD = {"c0": "worker-0", "c1": "worker-1", "c2": "worker-2", "c3": "worker-3"}


def test_what_does_no_work_is_given_at_once():
    found = answer(["c2"], HELD, working=["worker-0", "worker-1"])
    assert found.release == ("c2",)
    assert found.stop == ()


def test_another_idle_one_goes_in_place_of_a_member_at_work():
    found = answer(["c0"], HELD, working=["worker-0", "worker-1"])
    assert found.release == ("c2",)
    assert found.stop == ()


def test_members_at_work_must_stop_where_the_idle_are_not_enough():
    found = answer(["c0", "c1"], HELD, working=["worker-0", "worker-1", "worker-2"])
    assert found.release == ("c3",)
    assert found.stop == ("worker-0", "worker-1")


def test_containers_that_are_not_ours_any_more_ask_for_nothing():
    assert answer(["c9"], HELD, working=list(HELD.values())) == answer([], HELD, working=[])


@given(
    wanted=st.sets(st.sampled_from([*HELD, "c9"])),
    working=st.sets(st.sampled_from([*HELD.values()])),
)
def test_nobody_at_work_loses_its_container_without_a_word(wanted, working):
    found = answer(sorted(wanted), HELD, working)
    assert not {HELD[c] for c in found.release} & working
    assert set(found.stop) <= working
    named = [c for c in wanted if c in HELD]
    assert found.stop or len(found.release) >= len(named)
