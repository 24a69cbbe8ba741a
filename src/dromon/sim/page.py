"""Summaries as one page of HTML with plots, with nothing fetched by whoever looks at it."""

from collections.abc import Sequence
from html import escape
from math import log10

from dromon.observe import plots
from dromon.sim.measures import Group, Summary
from dromon.sim.rows import HEADINGS, cells
from dromon.units import format_duration

LISTED = 20  # users or queues on the page


def page(title: str, about: str, summaries: Sequence[Summary]) -> str:
    body = [f"<p>{escape(about)}</p>\n", side_by_side(summaries)]
    for summary in summaries:
        for what, found in (("queue", summary.queues), ("user", summary.users)):
            if len(found) > 1:
                body.append(f"<h2>By {what}, {escape(summary.policy)}</h2>\n")
                body.append(_groups(what, found))
    return plots.page(title, "".join(body), [use_plot(summaries), wait_plot(summaries)])


def side_by_side(summaries: Sequence[Summary]) -> str:
    columns = [cells(summary) for summary in summaries]
    rows = [[heading, *(each[at] for each in columns)] for at, heading in enumerate(HEADINGS)]
    return plots.table(["", *rows[0][1:]], rows[1:])


def picture(summaries: Sequence[Summary]) -> str:
    """The two plots as one SVG file."""
    return plots.stacked([use_plot(summaries), wait_plot(summaries)])


def use_plot(summaries: Sequence[Summary]) -> str:
    longest = max((summary.makespan for summary in summaries), default=0.0) or 1.0
    return plots.lines(
        "GPUs in use over time",
        {
            summary.policy: [(x * summary.makespan / longest, y) for x, y in summary.use]
            for summary in summaries
        },
        x_labels=[format_duration(longest * part / 4) for part in range(5)],
        y_top=1.0,
        y_labels=["0%", "50%", "100%"],
        filled=len(summaries) == 1,
    )


def wait_plot(summaries: Sequence[Summary]) -> str:
    """Waiting, on a scale that grows tenfold: most wait little and a few very long."""
    longest = max((s.waits[-1][0] for s in summaries if s.waits), default=0.0)
    decades = 1
    while 10**decades < longest:
        decades += 1

    def along(seconds: float) -> float:
        return log10(max(1.0, seconds)) / decades

    return plots.lines(
        "Part of the jobs that waited at most so long",
        {s.policy: [(along(seconds), part) for seconds, part in s.waits] for s in summaries},
        x_labels=[
            format_duration(10**at) if decades < 7 or not (decades - at) % 2 else ""
            for at in range(decades + 1)
        ],
        y_top=1.0,
        y_labels=["0%", "50%", "100%"],
    )


def _groups(what: str, found: Sequence[Group]) -> str:
    rows = [
        [
            group.name or "-", str(group.jobs), f"{group.gpu_hours:,.1f}",
            format_duration(group.jct), format_duration(group.queueing), f"{group.speed:.3f}",
        ]
        for group in found[:LISTED]
    ]  # fmt: skip
    titles = [what, "jobs", "GPU-hours", "mean JCT", "mean queueing", "speed"]
    return plots.table(titles, rows)
