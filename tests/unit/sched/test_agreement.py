"""The scheduler and a slow one that can be seen to be right decide alike."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # the reference is no part of what is installed

from dromon.sched.cluster import Cluster
from dromon.sched.decide import decide
from dromon.sched.decisions import Refuse, Start
from reference.play import Play
from reference.round import TooClose
from reference.round import decide as slowly
from reference.scenarios import Steps, comparable, scenario, shrink, told
from reference.slow import Slow

# `make test-deep` asks for more.
COUNT = int(os.environ.get("DROMON_SCENARIOS", "2000")) // 4
CHUNK = 100
FIRST = 1_000_000  # seeds of other tests begin elsewhere
ONCE = (
    2145, 1012531, 1030021, 1207054, 1214391, 1215231, 3020414, 5000123, 5000967, 7000728, 9013407,
    13001381, 13006242,
)  # fmt: skip


def plain(decisions: tuple[Any, ...], with_places: bool) -> list[Any]:
    """Comparable: sentences may differ, and the order matters among starts only."""
    starts = [d for d in decisions if isinstance(d, Start)]
    refused = sorted(d.job for d in decisions if isinstance(d, Refuse))
    others = [repr(d) for d in decisions if not isinstance(d, Start | Refuse)]
    places = [(d.job, dict(d.placement) if with_places else len(d.placement)) for d in starts]
    return [refused, places, sorted(others)]


def difference(steps: Steps) -> str | None:
    """Where the two part, in words; None if they never do."""
    play, slow, fast = Play(), Slow(), Cluster()
    for number, step in enumerate(steps):
        for event in play.of_step(step):
            for it in (play.note, slow.apply, fast.apply):
                it(event)
        try:
            expected = slowly(slow, play.now, number)
        except TooClose:
            return None
        got = decide(fast, play.now, number)
        # Beside planned starts either of two nodes may be the fuller one; otherwise the same.
        going = {d.job for d in expected}
        waits = any(j.id not in going for j in slow.waiting())
        if plain(got, not waits) != plain(expected, not waits):
            return f"after step {number}\nthe slow one: {expected}\nthe fast one: {got}"
        for decision in expected:
            event = play.of_decision(decision)
            for it in (play.note, slow.apply, fast.apply):
                it(event)
    return None


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_slow_and_fast_decide_alike(first: int) -> None:
    for seed in range(first, first + min(CHUNK, COUNT)):
        steps = comparable(scenario(seed))
        if difference(steps) is not None:
            least = shrink(steps, lambda s: difference(s) is not None)
            pytest.fail(f"seed {seed}:\n{told(least)}\n{difference(least)}", pytrace=False)


@pytest.mark.parametrize("seed", ONCE)
def test_where_they_once_parted_they_decide_alike(seed: int) -> None:
    assert difference(comparable(scenario(seed))) is None
