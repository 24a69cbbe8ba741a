"""`dromon report`: who used what, who is owed what, who waited, how busy the machine was."""

from __future__ import annotations

import sys
import time

from dromon.cli.console import Console, Paint, wants_colour, width_of
from dromon.cli.parser import complete, duration
from dromon.cli.table import Column, render
from dromon.cli.words import amount
from dromon.errors import UsageError
from dromon.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser
    from dromon.cli.table import Cell

WEEK = 7 * 86400.0
LEVELS = " ▁▂▃▄▅▆▇█"
UNDER = {60: "a minute", 600: "10 minutes", 3600: "an hour", 21600: "6 hours", 86400: "a day"}
PICTURES = (".html", ".svg")


def configure(parser: Parser) -> None:
    parser.about(
        "Who used this machine and how much, how long jobs waited, how busy it was, and which "
        "queue is owed or has borrowed something now. What was used stays in the report when a "
        "job is removed. -o FILE.html or FILE.svg writes a picture that needs nothing else.",
        examples="""
dromon report                    the last seven days
dromon report --since 30d
dromon report -o json
dromon report -o week.html
""",
    )
    parser.add_argument(
        "--since", type=duration, default=WEEK, metavar="AGE", help="how far back (default: 7d)"
    )
    output = parser.add_argument("-o", "--output", metavar="WHAT", help="json, or FILE.html/.svg")
    complete(output, "file")


def execute(args: Namespace, api: Api) -> int:
    wanted = args.output or ""
    if wanted and wanted != "json" and not wanted.endswith(PICTURES):
        raise UsageError(f"report: -o {wanted}: expected json, or a file ending in .html or .svg")
    found = api.machine().report(time.time() - args.since)
    if wanted == "json":
        from dromon.cli.plain import print_json

        print_json(found)
    elif wanted:
        from dromon.cli.reportpicture import page, picture

        text = picture(found) if wanted.endswith(".svg") else page(found)
        try:
            with open(wanted, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(f"cannot write {wanted}: {error.strerror}") from None
        Console().say(f"wrote {wanted}")
    else:
        sys.stdout.write(text_of(found, width_of(1), Paint(wants_colour(1))))
    return 0


def text_of(report: Mapping[str, Any], width: int | None, paint: Paint) -> str:
    span = format_duration(report["end"] - report["start"])
    busy, resource = report["utilisation"], report["resource"]
    total = amount(resource, report["total"].get(resource, 0))
    line = "".join(LEVELS[min(8, round(8 * part))] for part in busy["line"])
    parts = [
        f"the last {span}: {busy['average']:.0%} of {total} {resource[:-1].upper()}s busy\n",
        paint(f"  {line}", "green") + "\n\n",
        used("USER", report["users"], resource, width, paint), "\n",
        used("QUEUE", report["queues"], resource, width, paint), "\n",
        waits(report["waits"]),
    ]  # fmt: skip
    if any(each["owed"] or each["borrowed"] for each in report["owed"]):
        parts += ["\n", owed(report["owed"], width, paint)]
    return "".join(parts)


def used(
    title: str, rows: Sequence[Mapping[str, Any]], resource: str, width: int | None, paint: Paint
) -> str:
    hours = f"{resource[:-1]}_hours"
    columns = [
        Column(title, least=8), Column("JOBS", right=True),
        Column(f"{resource[:-1].upper()}-HOURS", right=True), Column("PART", right=True),
        Column("MEDIAN WAIT", right=True), Column("LONGEST", right=True),
    ]  # fmt: skip
    cells: list[list[Cell]] = [
        [
            row["name"], str(row["jobs"]), f"{row[hours]:.2f}", f"{row['part']:.0%}",
            told(row["median_wait"]), told(row["longest_wait"]),
        ]
        for row in rows
    ]  # fmt: skip
    return render(columns, cells, width, paint)


def waits(found: Mapping[str, Any]) -> str:
    if not found["starts"]:
        return "nothing started in that time\n"
    starts = f"{found['starts']} start{'s' * (found['starts'] != 1)}"
    lines = [
        f"{starts}; waited {told(found['median'])} (median), "
        f"{told(found['p90'])} (p90), {told(found['longest'])} (longest)"
    ]
    most = max(each["starts"] for each in found["classes"])
    for each in found["classes"]:
        limit = under(each["below"])
        bar = "█" * round(30 * each["starts"] / most)
        lines.append(f"  {limit:<18}{each['starts']:>6}  {bar}".rstrip())
    return "".join(line + "\n" for line in lines)


def under(limit: float | None) -> str:
    return "longer" if limit is None else f"under {UNDER[int(limit)]}"


def owed(rows: Sequence[Mapping[str, Any]], width: int | None, paint: Paint) -> str:
    columns = [
        Column("QUEUE", least=8), Column("DESERVES", right=True), Column("HAS", right=True),
        Column("IS OWED", right=True), Column("HAS BORROWED", right=True),
    ]  # fmt: skip
    cells: list[list[Cell]] = [
        [row["name"], *(f"{row[key]:g}" for key in ("deserved", "used", "owed", "borrowed"))]
        for row in rows
    ]
    return render(columns, cells, width, paint)


def told(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds)
