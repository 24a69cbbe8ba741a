"""Sums over outcomes."""

import pytest

from dromon.sched.rules import Rules
from dromon.sim import Trace, TraceJob, simulate
from dromon.sim.fleet import fleet
from dromon.sim.measures import Spread, jain, summarise
from dromon.sim.page import page, picture
from dromon.sim.rows import COLUMNS, csv_text, values
from dromon.sim.study import compare

JOBS = [
    TraceJob("a", 0, 10, 2, user="ann", queue="x"),
    TraceJob("b", 0, 10, 2, user="bob", queue="y"),
    TraceJob("c", 5, 10, 2, user="bob", queue="y"),
]


def test_a_spread_has_the_99th_of_a_hundred():
    assert Spread.of([float(n) for n in range(100)]) == Spread(49.5, 49.5, 99.0)
    assert Spread.of([]) == Spread()


def test_jain_is_one_when_all_are_alike_and_a_share_when_one_has_all():
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)


def test_a_summary_adds_up():
    outcome = simulate(Trace(JOBS), fleet(["1x4"]), Rules(policy="fifo"))
    found = summarise(outcome, "fifo", "bestfit", 0)
    assert (found.jobs, found.done, found.makespan) == (3, 3, 20)
    assert found.jct.mean == pytest.approx((10 + 10 + 15) / 3)
    assert found.queueing.mean == pytest.approx(5 / 3)
    assert found.utilisation == pytest.approx((2 * 30) / (4 * 20))
    assert sum(part for _, part in found.use) / len(found.use) == pytest.approx(0.75)
    assert [(group.name, group.jobs) for group in found.users] == [("bob", 2), ("ann", 1)]
    assert found.waits[-1] == (5.0, 1.0)


def test_policies_side_by_side_have_one_row_each():
    found = compare(Trace(JOBS), fleet(["1x4"]), policies=["fifo", "drf", "srtf"])
    assert [summary.policy for summary in found] == ["fifo", "drf", "srtf"]
    lines = csv_text(found).splitlines()
    assert lines[0].split(",") == list(COLUMNS)
    assert len(lines) == 4
    assert values(found[0])["makespan"] == 20.0


def test_free_gpus_that_nobody_could_use_are_fragments():
    wide = [TraceJob(str(n), n, 100, 3) for n in range(2)]
    found = compare(Trace(wide), fleet(["1x4"]), policies=["fifo"])
    assert found[0].fragmentation == pytest.approx(0.25)


def test_a_page_needs_nothing_from_elsewhere():
    found = compare(Trace(JOBS), fleet(["1x4"]), policies=["fifo", "las"])
    text = page("A <trace>", "three jobs", found)
    assert "A &lt;trace&gt;" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert text.count("<polyline") == 4
    assert picture(found).startswith("<svg")
    assert text == page("A <trace>", "three jobs", found)
