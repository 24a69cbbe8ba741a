"""`dromon queue`: change the queues of this machine while they are in use."""

from __future__ import annotations

import sys
import time

from dromon.cli.console import Console, Paint, wants_colour, width_of
from dromon.cli.parser import add_output, whole
from dromon.cli.table import Column, render
from dromon.errors import JobFileError, UsageError
from dromon.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser

ACTIONS = ("set", "drain", "open", "rm", "history")
LATEST = 20


def configure(parser: Parser) -> None:
    parser.about(
        "Change a queue of this machine: at once, without a restart, on top of the site file, "
        "which stays as it is. A change that would be wrong is refused as a whole; every one is a "
        "version with who, when and what (`history`). When the site file is edited later, key by "
        "key the later change counts.\n\n"
        "KEY is a key of the site file's queues; `KEY=` takes it out again. drain: nothing new is "
        "accepted and what waits stays where it is; what runs goes on.",
        examples="""
dromon queue set research weight=2 limit.gpus=6
dromon queue set research user_limit.gpus=2 max_duration=12h
dromon queue set research 'submit={groups: [ml]}' user_budget.week=100
dromon queue set research limit=           no limit any more
dromon queue drain research
dromon queue open research
dromon queue history
""",
    )
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("name", metavar="NAME", nargs="?", help="the queue")
    parser.add_argument("settings", metavar="KEY=VALUE", nargs="*", help="set: what to change")
    parser.add_argument(
        "-n", "--limit", type=whole, default=LATEST, metavar="N", help="history: the newest N"
    )
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    if args.action == "history":
        return history(args, api)
    if not args.name:
        raise UsageError(f"queue {args.action}: which queue?", hint="`dromon queues` lists them.")
    if (args.action == "set") != bool(args.settings):
        said = "what is to be set?" if args.action == "set" else f"what is {args.settings[0]!r}?"
        raise UsageError(f"queue {args.action}: {said}", hint="`dromon queue --help` explains it.")
    try:
        found = api.machine().change_queue(args.action, args.name, args.settings)
    except JobFileError as error:
        console = Console()
        for problem in error.problems:
            tail = f"; {problem.suggestion}" if problem.suggestion else ""
            console.line(f"{problem.path}: {problem.text}{tail}")
        console.error("nothing was changed")
        return error.exit_code
    if args.output:
        from dromon.cli.plain import print_json

        print_json(found)
        return 0
    done = {"set": "changed", "drain": "drained", "open": "open", "rm": "removed"}[args.action]
    Console().say(f"queue {args.name} is {done} (version {found['version']} of the rules)")
    for note in found["notes"]:
        Console().line(f"note: {note}")
    return 0


def history(args: Namespace, api: Api) -> int:
    versions = api.machine().queue_history(args.limit)
    if args.name:
        word = f"queue {args.name}"
        versions = [v for v in versions if word in v["what"] or f".{args.name}" in v["what"]]
    if args.output:
        from dromon.cli.plain import print_json

        print_json(versions)
        return 0
    if not versions:
        Console().say("nothing was changed yet")
        return 0
    columns = [
        Column("VERSION", right=True), Column("AGE", right=True), Column("WHO"),
        Column("WHAT", least=20),
    ]  # fmt: skip
    now = time.time()
    rows = [
        [str(v["version"]), format_duration(now - v["time"]), v["user"] or "-", v["what"]]
        for v in versions
    ]
    sys.stdout.write(render(columns, rows, width_of(1), Paint(wants_colour(1))))
    return 0
