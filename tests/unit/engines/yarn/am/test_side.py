"""TensorBoard's container: asked for beside the gang, and never in its way."""

from dromon.engines.yarn.am.side import ROLE, TRIES, Side


def test_a_job_without_tensorboard_asks_for_nothing():
    side = Side({"tensorboard": None})
    assert side.missing(gang_runs=True) == {}
    assert not side.take("c1")


def test_it_is_asked_for_once_the_gang_runs():
    side = Side({"tensorboard": "runs"})
    assert side.missing(gang_runs=False) == {ROLE: 0}
    assert side.missing(gang_runs=True) == {ROLE: 1}
    assert side.take("c1")
    assert side.missing(gang_runs=True) == {ROLE: 0}
    assert not side.take("c2")


def test_one_that_ends_is_asked_for_again_but_not_for_ever():
    side = Side({"tensorboard": "runs"})
    for number in range(TRIES):
        assert side.missing(gang_runs=True) == {ROLE: 1}
        side.take(f"c{number}")
        assert side.lose(f"c{number}", "no module named tensorboard")
    assert side.missing(gang_runs=True) == {ROLE: 0}
    assert side.trouble == "no module named tensorboard"


def test_the_end_of_another_container_is_not_its_own():
    side = Side({"tensorboard": "runs"})
    side.take("c1")
    assert not side.lose("c2", "")
    assert side.container == "c1"
