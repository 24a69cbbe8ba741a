"""`dromon daemon`: the process that runs jobs on this machine."""

from __future__ import annotations

import sys
import time

from dromon.cli.console import Console
from dromon.cli.parser import add_output, whole
from dromon.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser

ACTIONS = ("status", "start", "stop", "restart", "logs")


def configure(parser: Parser) -> None:
    parser.about(
        "The daemon starts by itself with the first command and ends by itself when nothing is "
        "left to do. Stopping or restarting it does not touch running jobs: they go on, and the "
        "next daemon takes them over.",
        examples="""
dromon daemon status
dromon daemon start --stay      do not end when idle
dromon daemon restart           after an upgrade
dromon daemon logs -f
""",
    )
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("--stay", action="store_true", help="start: do not end when idle")
    parser.add_argument(
        "--fake-gpus", type=whole, default=0, metavar="N", help="restart: pretend, to try it"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="logs: go on until Ctrl-C")
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    check(args)
    if args.action == "logs":
        print_log(api.daemon_log(), follow=args.follow)
        return 0
    options: dict[str, Any] = {"stay": True} if args.stay else {}
    if args.fake_gpus:
        options["fake_gpus"] = args.fake_gpus
    found = api.daemon(args.action, **options)
    found = {key: value for key, value in found.items() if key != "ok"}
    if args.output:
        from dromon.cli.plain import print_json

        print_json({"running": "pid" in found, **found})
    elif args.action == "status":
        sys.stdout.write(page(found))
    else:
        Console().say(sentence(args.action, found))
    return 0


def check(args: Namespace) -> None:
    from dromon.errors import UsageError

    if args.stay and args.action != "start":
        raise UsageError(f"daemon {args.action}: --stay is for start")
    if args.fake_gpus and args.action != "restart":
        raise UsageError(f"daemon {args.action}: --fake-gpus is for restart")
    if args.follow and args.action != "logs":
        raise UsageError(f"daemon {args.action}: --follow is for logs")


def print_log(path: str, *, follow: bool) -> None:
    try:
        file = open(path, errors="replace")  # noqa: SIM115 - closed below, whatever happens
    except FileNotFoundError:
        Console().say("the daemon has not written anything yet")
        return
    with file:
        while True:
            for line in file:
                sys.stdout.write(line)
            if not follow:
                return
            sys.stdout.flush()
            time.sleep(0.2)


def page(found: dict[str, Any]) -> str:
    if "pid" not in found:
        return "not running\n"
    lines = []
    for key, value in found.items():
        if key == "started":
            value = f"{format_duration(time.time() - value)} ago"
        elif isinstance(value, bool):
            value = "yes" if value else "no"
        lines.append(f"{key:<9}{value}\n")
    return "".join(lines)


def sentence(action: str, found: dict[str, Any]) -> str:
    if action == "stop":
        ended = found.get("stopped", True)
        return "the daemon has ended; running jobs go on" if ended else "no daemon was running"
    return f"the daemon {'runs' if action == 'start' else 'was restarted'} (process {found['pid']})"
