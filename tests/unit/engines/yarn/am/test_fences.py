"""A member whose node is out of sight may still run: until when nobody may take its place."""

from dromon.engines.yarn.am.fences import MARGIN, Fences


def test_nobody_is_fenced_at_first():
    fences = Fences(90.0)
    assert not fences.members
    assert fences.first == float("inf")
    assert fences.passed(1e12) == []


def test_a_fence_stands_until_lease_and_grace_are_over():
    fences = Fences(90.0)
    fences.put("worker-1", 100.0, "its node is lost")
    assert fences.first == 190.0 + MARGIN
    assert fences.passed(190.0 + MARGIN - 0.01) == []
    assert fences.passed(190.0 + MARGIN) == [("worker-1", "its node is lost")]
    assert not fences.members


def test_a_second_report_of_the_same_loss_does_not_move_it():
    fences = Fences(90.0)
    fences.put("worker-1", 100.0, "first")
    fences.put("worker-1", 150.0, "second")
    assert fences.passed(192.0) == [("worker-1", "first")]


def test_one_that_was_heard_of_is_no_longer_fenced():
    fences = Fences(90.0)
    fences.put("worker-1", 100.0, "its node is lost")
    assert fences.lift("worker-1") == "its node is lost"
    assert fences.passed(1e12) == []
