"""Real runs of the frameworks that take gigabytes, through the command line."""

import pytest

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]  # they are downloaded first

RANKS = r"rank \d+ of \d+(?:, local \d+ of \d+|, \d+ devices in all)?"


def is_learning(losses: list[float]) -> bool:
    return len(losses) >= 3 and losses[-1] < 0.8 * losses[0]


def test_torch_script_written_for_torchrun_runs_without_it(example):
    said = example("torch-ddp")
    assert said.matching(RANKS) == [
        "rank 0 of 4, local 0 of 2",
        "rank 1 of 4, local 1 of 2",
        "rank 2 of 4, local 0 of 2",
        "rank 3 of 4, local 1 of 2",
    ]
    assert is_learning(said.losses)


def test_torchrun_in_the_command_finds_its_gang(example):
    said = example("torchrun")
    assert said.matching(RANKS) == [f"rank {n} of 2, local 0 of 1" for n in (0, 1)]
    assert is_learning(said.losses)


def test_torchrun_keeps_its_options(example):
    said = example("torchrun", "command=torchrun --nproc-per-node 2 train.py")
    assert said.matching(RANKS) == [
        "rank 0 of 4, local 0 of 2",
        "rank 1 of 4, local 1 of 2",
        "rank 2 of 4, local 0 of 2",
        "rank 3 of 4, local 1 of 2",
    ]


def test_accelerate_launch_in_the_command_finds_its_gang(example):
    said = example("accelerate")
    assert said.matching(RANKS) == ["rank 0 of 2", "rank 1 of 2"]
    assert is_learning(said.losses)


def test_lightning_takes_the_world_as_it_is(example):
    said = example("lightning-ddp")
    assert said.matching(RANKS) == ["rank 0 of 2", "rank 1 of 2"]
    assert is_learning(said.losses)


def test_tensorflow_workers_mirror_each_other(example):
    said = example("tensorflow-multiworker")
    assert said.matching(RANKS) == ["rank 0 of 2", "rank 1 of 2"]
    assert is_learning(said.losses)


def test_tensorflow_servers_and_workers_end_when_their_chief_has(example):
    said = example("tensorflow-ps")
    assert said.matching(r"(chief|worker|ps) \d") == ["chief 0", "ps 0", "worker 0", "worker 1"]
    assert is_learning(said.losses)


def test_tensorflow_estimator_waits_for_its_evaluator(example):
    said = example("tensorflow-estimator")
    assert said.matching(r".* is done") == [
        "chief 0 is done",
        "evaluator 0 is done",
        "worker 0 is done",
    ]
    assert said.losses  # of the evaluator, after the last step
    assert said.losses[-1] < 0.5
