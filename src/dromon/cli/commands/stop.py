"""`dromon stop`: ask jobs to end."""

from __future__ import annotations

from dromon.cli.console import Console
from dromon.cli.parser import add_on, add_ref, duration, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about(
        "Stop jobs: their members get SIGTERM, have the job's `stop_grace` to save their work, "
        "and are killed when it is over. Returns at once; logs and outputs are kept.",
        examples="""
dromon stop 41
dromon stop 41 42 unet3d
dromon stop @last --grace 0     kill it now
""",
    )
    add_ref(parser, nargs="+", what="the jobs")
    parser.add_argument(
        "--grace", type=duration, metavar="TIME", help="10s, 2m (default: the job's own)"
    )
    add_on(parser, "where the jobs are (default: they are looked for)")


def execute(args: Namespace, api: Api) -> int:
    stopped = api.stop(args.refs, grace=args.grace, **where(args))
    console = Console()
    for id in stopped:
        console.say(f"stopping {id}")
    if not stopped:
        console.say("nothing to stop: it has ended already")
    return 0
