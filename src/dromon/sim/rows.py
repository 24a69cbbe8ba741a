"""A summary as words for a table and as columns for a program."""

from collections.abc import Sequence

from dromon.sim.measures import Summary
from dromon.units import format_duration

HEADINGS = (
    "policy", "done", "mean JCT", "median JCT", "p99 JCT", "mean queueing", "median queueing",
    "p99 queueing", "makespan", "use", "fragments", "preemptions", "user fairness",
    "queue fairness",
)  # fmt: skip
COLUMNS = (
    "policy", "placement", "seed", "gpus", "jobs", "done", "dropped", "refused", "unfinished",
    "jct_mean", "jct_median", "jct_p99", "queueing_mean", "queueing_median", "queueing_p99",
    "makespan", "utilisation", "allocated", "fragmentation", "preemptions", "preempted_jobs",
    "user_fairness", "queue_fairness",
)  # fmt: skip


def cells(summary: Summary) -> list[str]:
    """What HEADINGS announce."""
    spreads = [
        format_duration(value)
        for spread in (summary.jct, summary.queueing)
        for value in (spread.mean, spread.median, spread.p99)
    ]
    done = str(summary.done) if summary.done == summary.jobs else f"{summary.done}/{summary.jobs}"
    return [
        summary.policy, done, *spreads, format_duration(summary.makespan),
        f"{summary.utilisation:.1%}", f"{summary.fragmentation:.1%}", str(summary.preemptions),
        f"{summary.user_fairness:.3f}", f"{summary.queue_fairness:.3f}",
    ]  # fmt: skip


def values(summary: Summary) -> dict[str, str | int | float]:
    """What COLUMNS announce, rounded alike everywhere."""
    found: dict[str, str | int | float] = {}
    for column in COLUMNS:
        head, _, tail = column.partition("_")
        spread = tail in ("mean", "median", "p99")
        value = getattr(getattr(summary, head), tail) if spread else getattr(summary, column)
        found[column] = round(value, 6) if isinstance(value, float) else value
    return found


def csv_text(summaries: Sequence[Summary]) -> str:
    """One line for each run, under a line of names."""
    lines = [",".join(COLUMNS)]
    lines += [",".join(str(value) for value in values(summary).values()) for summary in summaries]
    return "".join(line + "\n" for line in lines)
