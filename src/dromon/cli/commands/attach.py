"""`dromon attach`: follow a job that somebody, perhaps you yesterday, has started."""

from __future__ import annotations

from dromon.cli.console import Console
from dromon.cli.parser import add_on, add_ref, where, whole
from dromon.cli.session import Session
from dromon.cli.words import title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about(
        "Follow a job as if it had been started here: its last lines, then what it prints, then "
        "its verdict. Ctrl-C asks whether to stop the job or only to leave it.",
        examples="""
dromon attach          the last job
dromon attach 41
dromon attach unet3d-k3x9p2 --on prod      a job that another machine has submitted
""",
        codes="the job's own; 0 when you detach; 130 when you stop it by Ctrl-C",
    )
    add_ref(parser, nargs="?")
    add_on(parser)
    parser.add_argument(
        "--tail", type=whole, default=20, metavar="N", help="earlier lines to show (default: 20)"
    )


def execute(args: Namespace, api: Api) -> int:
    status = api.attach(args.ref, **where(args))
    Console().say(f"{title(status)} {status.state}")
    session = Session(api, status.id, status.number, on=status.on)
    return session.follow(tail=args.tail)
