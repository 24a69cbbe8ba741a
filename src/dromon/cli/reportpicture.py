"""A report as a picture: SVG, or a page of HTML that has it and the tables."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from dromon.cli.commands.report import under
from dromon.observe import plots
from dromon.units import format_duration

SHOWN = 12  # users with a bar of their own


def picture(report: Mapping[str, Any]) -> str:
    return plots.stacked(_plots(report))


def page(report: Mapping[str, Any]) -> str:
    hours = f"{report['resource'][:-1]}_hours"
    titles = ("", "jobs", hours.replace("_", "-"), "part", "median wait", "longest wait")
    body = plots.table(("user", *titles[1:]), _rows(report["users"], hours))
    body += plots.table(("queue", *titles[1:]), _rows(report["queues"], hours))
    keys = ("deserved", "used", "owed", "borrowed")
    rows = [[row["name"], *(f"{row[key]:g}" for key in keys)] for row in report["owed"]]
    body += plots.table(("queue now", "deserves", "has", "is owed", "has borrowed"), rows)
    return plots.page(f"Use of this machine, {_day(report['start'])} to {_day(report['end'])}",
                      body, _plots(report))  # fmt: skip


def _plots(report: Mapping[str, Any]) -> list[str]:
    busy, resource = report["utilisation"], report["resource"]
    count = len(busy["line"])
    points = [((number + 0.5) / count, part) for number, part in enumerate(busy["line"])]
    middle = (report["start"] + report["end"]) / 2
    word = resource[:-1].upper()
    hours = f"{resource[:-1]}_hours"
    waits = report["waits"]
    return [
        plots.lines(
            f"{word}s in use: {busy['average']:.0%} on average",
            {"in use": points},
            x_labels=[_moment(at) for at in (report["start"], middle, report["end"])],
            y_top=1.0,
            y_labels=["0%", "50%", "100%"],
            filled=True,
        ),
        plots.bars(
            f"{word}-hours by user",
            [
                (row["name"], row[hours], f"{row[hours]:.2f} ({row['part']:.0%})")
                for row in report["users"][:SHOWN]
            ],
        ),
        plots.bars(
            f"How long {waits['starts']} starts had to wait",
            [
                (under(each["below"]), each["starts"], str(each["starts"]))
                for each in waits["classes"]
            ],
        ),
    ]


def _rows(rows: Sequence[Mapping[str, Any]], hours: str) -> list[list[str]]:
    return [
        [
            row["name"], str(row["jobs"]), f"{row[hours]:.2f}", f"{row['part']:.0%}",
            _told(row["median_wait"]), _told(row["longest_wait"]),
        ]
        for row in rows
    ]  # fmt: skip


def _told(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds)


def _moment(at: float) -> str:
    return time.strftime("%d %b %H:%M", time.localtime(at))


def _day(at: float) -> str:
    return time.strftime("%d %b %Y", time.localtime(at))
