"""`dromon run`: submit, then follow."""

from __future__ import annotations

import sys

from dromon.cli.console import Console
from dromon.cli.parser import CHOSEN, add_on, where
from dromon.cli.target import add_target, call_arguments
from dromon.cli.words import called

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from dromon.cli.calls import Accepted, Api
    from dromon.cli.parser import Namespace, Parser
    from dromon.cli.transfer import Transfer
    from dromon.engines.base import Progress

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
dromon run job.yaml --on yarn              the same file on a cluster
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
    add_on(parser, CHOSEN)
    add_detach(parser)
    parser.hint = "The script's own arguments come after --: `dromon run train.py -- --lr 3`."


def add_detach(parser: Parser) -> None:
    parser.add_argument(
        "-d", "--detach", action="store_true", help="print the job's id and do not follow it"
    )


def execute(args: Namespace, api: Api) -> int:
    call = call_arguments(args)
    console = Console()
    call.update(where(args))
    taken = submitted(console, lambda progress: api.start(progress=progress, **call))
    single = "command" in call and args.replicas in (None, 1) and not call["overrides"]
    return proceed(api, taken, console, detach=args.detach, single=single)


def submitted(console: Console, start: Callable[[Progress], Accepted]) -> tuple[Accepted, bool]:
    """Submit, showing what takes long. An interrupt before the last step leaves nothing behind;
    one that came during it could not be heeded, and is told beside what was accepted."""
    shown: list[Transfer] = []  # made when there is something to show: mostly there is not

    def progress(what: str, done: int, total: int) -> None:
        if not shown:
            from dromon.cli.transfer import Transfer

            shown.append(Transfer(console))
        shown[0](what, done, total)

    try:
        accepted = start(progress)
        return accepted, bool(shown) and shown[0].interrupted
    except KeyboardInterrupt:
        if shown:
            console.say("interrupted: nothing was submitted; what is uploaded need not be again")
        raise
    finally:
        if shown:
            shown[0].end()


def proceed(
    api: Api, taken: tuple[Accepted, bool], console: Console, *, detach: bool, single: bool = False
) -> int:
    """Say what was accepted, then leave or follow."""
    accepted, interrupted = taken
    notes = f" ({'; '.join(accepted.notes)})" if accepted.notes else ""
    name = called(accepted.id, accepted.number, accepted.on)
    if accepted.on == "local":
        console.say(f"job {name} {accepted.id} {accepted.state}{notes}")
    else:
        console.say(f"job {name} on {accepted.on} {accepted.state}{notes}")
    for title, url in accepted.links.items():
        console.line(console.paint(f"{title}: {url}", "dim"))
    if detach:
        from dromon.cli.session import suggest

        sys.stdout.write(accepted.id + "\n")
        suggest(console, None, name if accepted.is_known else f"{name} --on {accepted.on}")
        return 130 if interrupted else 0
    from dromon.cli.session import Session

    session = Session(
        api, accepted.id, accepted.number, single=single, on=accepted.on,
        is_known=accepted.is_known,
    )  # fmt: skip
    return session.follow(interrupted=interrupted)
