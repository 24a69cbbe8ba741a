"""`dromon diff`: two jobs side by side, only where they differ."""

from __future__ import annotations

import sys

from dromon.cli.console import Console, Paint, wants_colour, width_of
from dromon.cli.parser import add_on, add_output, complete, where
from dromon.cli.table import Column, render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about(
        "Show what differs between two jobs: request, configuration, files of code, locked "
        "packages, outcome.",
        examples="""
dromon diff                   the last two jobs
dromon diff 40 41
""",
    )
    for name, default in (("a", "@last~1"), ("b", "@last")):
        complete(
            parser.add_argument(
                name, metavar=name.upper(), nargs="?", default=default, help=f"default: {default}"
            ),
            "job",
        )
    add_on(parser, "where both are (default: they are looked for)")
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    found = api.diff(args.a, args.b, **where(args))
    if args.output:
        from dromon.cli.plain import print_json

        print_json(found)
    elif found:
        columns = [Column("WHAT"), Column(args.a, least=12), Column(args.b, least=12)]
        rows = [
            [entry["path"], (said(entry["a"]), "red"), (said(entry["b"]), "green")]
            for entry in found
        ]
        sys.stdout.write(render(columns, rows, width_of(1), Paint(wants_colour(1))))
    else:
        Console().say("they do not differ")
    return 0


def said(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return " ".join(value.split())
    import json

    return json.dumps(value, ensure_ascii=False, default=str)
