"""`dromon watch`: what becomes of jobs, as it happens; and a hand for those that are stuck."""

from __future__ import annotations

import sys
import time

from dromon.cli.console import Paint, wants_colour
from dromon.cli.parser import add_on, where
from dromon.cli.words import title
from dromon.errors import EngineError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser
    from dromon.engines.base import JobStatus

LOOK = 2.0  # seconds between two lists
TEND = 60.0  # seconds between two looks for jobs that are stuck


def configure(parser: Parser) -> None:
    parser.about(
        "Print a line whenever a job changes its state, until Ctrl-C. On Kubernetes, jobs that "
        "Volcano has forgotten (stuck in Restarting, never let in) are looked for once a minute, "
        "helped on where that is possible, and explained where it is not. Nothing has to be "
        "installed in the cluster for it, and jobs do not depend on it.",
        examples="""
dromon watch
dromon watch --on kubernetes
dromon watch --once --on kubernetes      look after stuck jobs once, and end
""",
    )
    add_on(parser, "whose jobs (default: this machine's and the clusters' used lately)")
    parser.add_argument("--once", action="store_true", help="look once, and end")


def execute(args: Namespace, api: Api) -> int:
    paint = Paint(wants_colour(1))
    known: dict[str, str] = {}
    tended = float("-inf")
    while True:
        try:
            if time.monotonic() >= tended + TEND:
                tended = time.monotonic()
                for words in api.tend(**where(args)):
                    say(paint(words, "yellow"))
            for status in api.jobs(all=True, **where(args)):
                if known.get(status.id) != status.state and (known or not status.is_terminal):
                    say(line_of(status))
                known[status.id] = status.state
        except EngineError as error:  # it may be back with the next look
            say(paint(error.message, "red"))
            if args.once:
                return 1
        if args.once:
            return 0
        time.sleep(LOOK)


def line_of(status: JobStatus) -> str:
    said = str((status.verdict or {}).get("message", ""))
    return f"{title(status)} {status.state}" + (f": {said}" if said else "")


def say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()
