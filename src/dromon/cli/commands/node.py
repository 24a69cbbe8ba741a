"""`dromon node`: let nothing new start on this machine, and let it again."""

from __future__ import annotations

from dromon.cli.console import Console
from dromon.cli.parser import add_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser

ACTIONS = ("drain", "open")


def configure(parser: Parser) -> None:
    parser.about(
        "drain: what runs goes on to its end, jobs are still accepted, and none of them starts; "
        "before a reboot, or when a GPU is to be looked at. open: as before. It stays so over "
        "restarts of the daemon, and stands in `dromon queue history`.",
        examples="""
dromon node drain
dromon node open
""",
    )
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("name", metavar="NODE", nargs="?", help="(default: this machine)")
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    found = api.machine().drain_node(args.name, args.action == "drain")
    if args.output:
        from dromon.cli.plain import print_json

        print_json(found)
        return 0
    console, running = Console(), found["running"]
    if not found["drained"]:
        console.say(f"{found['node']} is open")
    elif running:
        jobs = f"{len(running)} job{'s' * (len(running) != 1)}"
        console.say(f"{found['node']} is drained; {jobs} still running: {', '.join(running)}")
    else:
        console.say(f"{found['node']} is drained, and nothing runs on it")
    return 0
