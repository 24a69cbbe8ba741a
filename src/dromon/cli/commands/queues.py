"""`dromon queues`: where jobs wait, how much each queue may have and has."""

from __future__ import annotations

import sys

from dromon.cli.console import Paint, wants_colour, width_of
from dromon.cli.parser import CHOSEN, add_on, add_output, where
from dromon.cli.table import Column, render
from dromon.cli.words import amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser
    from dromon.cli.table import Cell

BAR = 20  # characters
FULL, OWED, ROOM, OVER = "█", "▒", "░", "▓"


def configure(parser: Parser) -> None:
    parser.about(
        "Show the queues of this machine as a tree: what each deserves, what it uses, its limit, "
        "and who is in it. A bar is the whole machine: full where the queue uses what it "
        f"deserves ({FULL}), darker where it borrows ({OVER}), lighter where it leaves what it "
        f"deserves to others ({OWED}). Of a cluster: each queue's share, how much of that is in "
        "use (over 100% where it borrows), and how many jobs run and wait in it.",
        examples="""
dromon queues
dromon queues --on yarn
dromon queues --on prod -o json
""",
    )
    add_on(parser, CHOSEN)
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    place = where(args)
    paint = Paint(wants_colour(1))
    if _is_here(args):
        views = api.machine().queue_views()
        if args.output:
            from dromon.cli.plain import print_json

            print_json(views["views"])
            return 0
        sys.stdout.write(tree(views["views"], width_of(1), paint))
        for note in views["notes"]:
            sys.stdout.write(paint(f"note: {note}", "dim") + "\n")
        return 0
    queues = api.queues(**place)
    if args.output:
        from dromon.cli.plain import print_json

        print_json(queues)
        return 0
    columns = [
        Column("QUEUE", least=8), Column("CAPACITY", right=True), Column("USED", right=True),
        Column("RUNNING", right=True), Column("QUEUED", right=True), Column("STATE"),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            queue.name,
            share(queue.capacity),
            share(queue.used),
            str(queue.running),
            str(queue.queued),
            queue.state if queue.state == "running" else (queue.state, "yellow"),
        ]
        for queue in queues
    ]
    sys.stdout.write(render(columns, rows, width_of(1), paint))
    return 0


def _is_here(args: Namespace) -> bool:
    import os

    from dromon.contexts import in_use

    return (args.on or os.environ.get("DROMON_ON") or in_use() or "local") == "local"


def share(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"


def tree(views: Sequence[Mapping[str, Any]], width: int | None, paint: Paint) -> str:
    root = views[0]
    resource = "gpus" if root["total"].get("gpus") else "cpus"
    whole = root["total"].get(resource, 0.0)
    columns = [
        Column("QUEUE", least=10), Column("USE", optional=True),
        Column(resource.upper(), right=True), Column("DESERVED", right=True),
        Column("LIMIT", right=True), Column("RUNNING", right=True), Column("QUEUED", right=True),
        Column("STATE"),
    ]  # fmt: skip
    depth: dict[str, int] = {}
    rows: list[list[Cell]] = []
    for view in views:
        name = view["name"]
        depth[name] = 0 if view["parent"] is None else depth[view["parent"]] + 1
        used = view["usage"].get(resource, 0.0)
        owed = view["deserved"].get(resource, 0.0)
        limit = view["limit"].get(resource)
        over = used > owed + 1e-9
        rows.append(
            [
                "  " * depth[name] + ("all" if view["parent"] is None else name),
                (bar(used, owed, whole), "yellow" if over else "green"),
                amount(resource, used),
                amount(resource, round(owed, 2)),
                "-" if limit is None else amount(resource, limit),
                str(view["running"]),
                str(view["queued"]),
                "" if view["open"] else ("drained", "yellow"),
            ]
        )
        for user in view["users"]:
            held = user["usage"].get(resource, 0.0)
            rows.append(
                [
                    ("  " * (depth[name] + 1) + user["name"], "dim"), "",
                    (amount(resource, held), "dim"), "", "",
                    (str(user["running"]), "dim"), (str(user["queued"]), "dim"), "",
                ]
            )  # fmt: skip
    return render(columns, rows, width, paint)


def bar(used: float, owed: float, whole: float) -> str:
    """Of the whole: used within what is deserved, borrowed, deserved but not used."""
    if not whole:
        return ROOM * BAR
    inside = round(BAR * min(used, owed) / whole)
    borrowed = round(BAR * max(0.0, used - owed) / whole)
    left = round(BAR * max(0.0, owed - used) / whole)
    return (FULL * inside + OVER * borrowed + OWED * left)[:BAR].ljust(BAR, ROOM)
