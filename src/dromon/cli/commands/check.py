"""`dromon check`: every problem of a job file at once."""

from __future__ import annotations

import sys

from dromon.cli.console import Console
from dromon.cli.parser import add_output, complete

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about(
        "Check a job file, with the values given after it, and report every problem with its "
        "place. Runs nothing and needs no daemon.",
        examples="""
dromon check job.yaml
dromon check job.yaml roles.worker.replicas=8
""",
        codes="0   fine\n64  it has problems",
    )
    complete(parser.add_argument("file", metavar="FILE", help="the job file"), "file")
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*", help="values to change")
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    problems = api.check(args.file, args.overrides)
    if args.output:
        from dromon.cli.plain import print_json

        print_json([problem.to_json() for problem in problems])
    else:
        sys.stdout.write("".join(f"{problem}\n" for problem in problems))
        if not problems:
            Console().say(f"{args.file} is fine")
    return 64 if problems else 0
