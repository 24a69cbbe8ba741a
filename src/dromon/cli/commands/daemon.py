"""`dromon daemon`: the process that runs jobs on this machine, and the arbiter of a shared one."""

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

SHARING = ("share", "unshare", "install", "uninstall")
ACTIONS = ("status", "start", "stop", "restart", "logs", *SHARING, "audit")
LATEST = 100  # entries of the audit that are shown


def configure(parser: Parser) -> None:
    parser.about(
        "The daemon starts by itself with the first command and ends by itself when nothing is "
        "left to do. Stopping or restarting it does not touch running jobs: they go on, and the "
        "next daemon takes them over.\n\n"
        "On a machine of many users one arbiter decides for all of them: `share` starts it, under "
        "any account, and every user's daemon finds it by itself. Root's also enforces what it "
        "decides; `install` has systemd run it.",
        examples="""
dromon daemon status
dromon daemon start --stay      do not end when idle
dromon daemon restart           after an upgrade
dromon daemon restart --alone   ask no arbiter, until it ends
dromon daemon logs -f
dromon daemon share             one queue for all users of this machine
dromon daemon audit             who did what on it
sudo dromon daemon install      the same at every start, and enforced
""",
    )
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("--stay", action="store_true", help="start: do not end when idle")
    parser.add_argument("--alone", action="store_true", help="restart: without the arbiter")
    parser.add_argument(
        "--foreground", action="store_true", help="share: stay, for containers and services"
    )
    parser.add_argument(
        "--fake-gpus", type=whole, default=0, metavar="N", help="restart, share: pretend, to try it"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="logs: go on until Ctrl-C")
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    check(args)
    if args.action == "logs":
        print_log(api.daemon_log(), follow=args.follow)
        return 0
    if args.action == "audit":
        return audit(args, api)
    options: dict[str, Any] = {"stay": True} if args.stay else {}
    if args.fake_gpus:
        options["fake_gpus"] = args.fake_gpus
    if args.alone:
        options["alone"] = True
    if args.action in SHARING:
        if args.foreground:
            options["foreground"] = True
        said = api.machine().share(args.action, **options)
    else:
        said = api.daemon(args.action, **options)
    found = {key: value for key, value in said.items() if key not in ("ok", "n")}
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

    for option, actions in (
        ("stay", ("start",)),
        ("alone", ("restart",)),
        ("foreground", ("share",)),
        ("fake_gpus", ("restart", "share")),
        ("follow", ("logs",)),
    ):
        if getattr(args, option) and args.action not in actions:
            name = option.replace("_", "-")
            raise UsageError(f"daemon {args.action}: --{name} is for {' and '.join(actions)}")


def audit(args: Namespace, api: Api) -> int:
    found = api.machine().audit(LATEST)
    if args.output:
        from dromon.cli.plain import print_json

        print_json(found)
        return 0
    for each in found:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each["time"]))
        words = (when, each["user"], each["action"], each["subject"], each["detail"])
        sys.stdout.write("  ".join(filter(None, words)) + "\n")
    return 0


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
    if action == "share":
        how = "is shared already" if found.get("was") else "is shared now"
        who = f"the arbiter of {found['user']} (process {found['pid']}) decides for everybody"
        return f"this machine {how}: {who}"
    if action == "unshare":
        return "the arbiter has left for good; each user's daemon decides for itself again"
    if action in ("install", "uninstall"):
        return str(found["said"])
    return f"the daemon {'runs' if action == 'start' else 'was restarted'} (process {found['pid']})"
