"""`dromon run`: submit, then follow."""

from __future__ import annotations

import sys

from dromon.cli.console import Console
from dromon.cli.target import add_target, call_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Accepted, Api
    from dromon.cli.parser import Namespace, Parser

CODES = """
attached: the job's own code; 128 + N when a signal N ended it; 130 when you stopped it by Ctrl-C
0   accepted (--detach), or you detached
64  the command line or the job file is wrong
65  refused: it can never run here
69  the engine cannot be reached
"""
EXAMPLES = """
dromon run train.py                        one process, queued on this machine
dromon run train.py --gpus 1 -- --lr 3     a GPU; what follows -- is the script's own
dromon run job.yaml                        the whole gang of a job file
dromon run job.yaml config.lr=1e-4 roles.worker.replicas=8
dromon run -n 4 --framework torch train.py
dromon run -d -- make experiments          any command; print its id and return at once
"""


def configure(parser: Parser) -> None:
    parser.about(
        "Run a job: the whole gang starts when there is room for it, or it waits. The code is "
        "fixed now: later edits do not reach a queued job. Its output is shown as it comes; "
        "Ctrl-C asks whether to stop the job or only to leave it.",
        examples=EXAMPLES,
        codes=CODES,
    )
    add_target(parser)
    parser.add_argument("--on", default="local", metavar="ENGINE", help="default: local")
    add_detach(parser)
    parser.hint = "The script's own arguments come after --: `dromon run train.py -- --lr 3`."


def add_detach(parser: Parser) -> None:
    parser.add_argument(
        "-d", "--detach", action="store_true", help="print the job's id and do not follow it"
    )


def execute(args: Namespace, api: Api) -> int:
    call = call_arguments(args)
    console = Console()
    accepted = api.start(on=args.on, **call)
    single = "command" in call and args.replicas in (None, 1) and not call["overrides"]
    return proceed(api, accepted, console, detach=args.detach, single=single)


def proceed(
    api: Api, accepted: Accepted, console: Console, *, detach: bool, single: bool = False
) -> int:
    """Say what was accepted, then leave or follow."""
    notes = f" ({'; '.join(accepted.notes)})" if accepted.notes else ""
    console.say(f"job {accepted.number} {accepted.id} {accepted.state}{notes}")
    if detach:
        from dromon.cli.session import suggest

        sys.stdout.write(accepted.id + "\n")
        suggest(console, None, accepted.number)
        return 0
    from dromon.cli.session import Session

    return Session(api, accepted.id, accepted.number, single=single).follow()
