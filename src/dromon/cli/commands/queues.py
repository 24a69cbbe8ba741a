"""`dromon queues`: where jobs wait, how much each queue may have and has."""

from __future__ import annotations

import sys

from dromon.cli.console import Paint, wants_colour, width_of
from dromon.cli.parser import CHOSEN, add_on, add_output, where
from dromon.cli.table import Column, render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser
    from dromon.cli.table import Cell


def configure(parser: Parser) -> None:
    parser.about(
        "Show the queues: each one's share of what there is, how much of that share is in use "
        "(over 100% where it borrows), and how many jobs run and wait in it.",
        examples="""
dromon queues
dromon queues --on yarn
dromon queues --on prod -o json
""",
    )
    add_on(parser, CHOSEN)
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    queues = api.queues(**where(args))
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
    sys.stdout.write(render(columns, rows, width_of(1), Paint(wants_colour(1))))
    return 0


def share(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"
