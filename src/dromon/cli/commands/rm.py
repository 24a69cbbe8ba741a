"""`dromon rm`: forget ended jobs."""

from __future__ import annotations

from dromon.cli.console import Console
from dromon.cli.parser import add_on, add_ref, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about(
        "Remove ended jobs: their records, logs, checkpoints and kept outputs. This cannot be "
        "undone. A job that runs or waits is refused; stop it first.",
        examples="""
dromon rm 41 42
""",
    )
    add_ref(parser, nargs="+", what="the jobs")
    add_on(parser, "where the jobs are (default: they are looked for)")


def execute(args: Namespace, api: Api) -> int:
    console = Console()
    for id in api.remove(args.refs, **where(args)):
        console.say(f"removed {id}")
    return 0
