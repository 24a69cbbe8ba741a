"""`python -m testbeds.yarn`: what is typed, and what is printed."""

import argparse
import json
import os
import signal
import sys
import time
from typing import Any

from dromon.errors import DromonError, UsageError
from testbeds import cache
from testbeds.yarn import ready
from testbeds.yarn.bed import Bed
from testbeds.yarn.plan import HADOOP, Options


def main(words: list[str] | None = None) -> int:
    args = parser().parse_args(words)
    try:
        bed = Bed(args.dir, tell=lambda line: print(line, file=sys.stderr, flush=True))
        return int(COMMANDS[args.command](bed, args) or 0)
    except DromonError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `logs NAME | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="python -m testbeds.yarn", description="A real HDFS and YARN on this machine."
    )
    root.add_argument(
        "--dir",
        default=str(cache.folder() / "yarn" / "run"),
        help="where this bed lives (default: %(default)s)",
    )
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="bring it up; does nothing for what runs already")
    up.add_argument("--hadoop", default=HADOOP, metavar="VERSION", help="default: %(default)s")
    up.add_argument("--nodes", type=int, default=2, metavar="N", help="NodeManagers, at least 2")
    up.add_argument(
        "--expiry",
        type=int,
        metavar="SECONDS",
        help="give up silent nodes, masters and unused containers after that (YARN's own: 600)",
    )
    up.add_argument(
        "--recovery", action="store_true", help="the ResourceManager remembers across a restart"
    )
    up.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any setting of Hadoop's, in all daemons",
    )
    commands.add_parser("down", help="end it and forget its data")
    status = commands.add_parser("status", help="what runs, and where")
    status.add_argument("-o", "--output", choices=["text", "json"], default="text")
    for name, text in (
        ("logs", "what a daemon said"),
        ("kill", "kill a daemon"),
        ("start", "start a killed daemon again, with the data it had"),
        ("label", "put a node into the partition of a label"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("name", metavar="NAME", help="namenode, datanode, …, node2")
        if name == "kill":
            command.add_argument("--signal", default="KILL", help="KILL, TERM, STOP, CONT …")
        if name == "label":
            command.add_argument("label", metavar="LABEL", help="empty takes it out again")
    return root


def up(bed: Bed, args: argparse.Namespace) -> None:
    if args.nodes < 2:
        raise UsageError("A bed has at least two nodes.", hint="Use --nodes 2 or more.")
    if args.expiry is not None and args.expiry < 1:
        raise UsageError("--expiry is at least one second.")
    settings = {}
    for word in args.set:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {word} is not KEY=VALUE.")
        settings[key] = value
    begin = time.monotonic()
    bed.up(Options(args.hadoop, args.nodes, args.expiry, args.recovery, settings))
    print(f"up after {time.monotonic() - begin:.0f} s", file=sys.stderr)
    print(text(described(bed)))


def down(bed: Bed, args: argparse.Namespace) -> None:
    bed.down()


def status(bed: Bed, args: argparse.Namespace) -> int:
    found = described(bed)
    print(json.dumps(found, indent=2) if args.output == "json" else text(found))
    return 0 if found["alive"] else 1


def logs(bed: Bed, args: argparse.Namespace) -> None:
    if args.name not in bed.plan.daemons:
        raise UsageError(
            f"There is no daemon {args.name!r}.", hint=f"There are {', '.join(bed.plan.daemons)}."
        )
    with open(bed.plan.log(args.name), errors="replace") as file:
        for line in file:
            sys.stdout.write(line)


def kill(bed: Bed, args: argparse.Namespace) -> None:
    name = args.signal.upper().removeprefix("SIG")
    if f"SIG{name}" not in signal.Signals.__members__:
        raise UsageError(f"There is no signal {args.signal!r}.", hint="KILL, TERM, STOP, CONT …")
    bed.kill(args.name, signal.Signals[f"SIG{name}"])


def start(bed: Bed, args: argparse.Namespace) -> None:
    bed.start(args.name)


def label(bed: Bed, args: argparse.Namespace) -> None:
    bed.label(args.name, args.label)


COMMANDS = {
    "up": up,
    "down": down,
    "status": status,
    "logs": logs,
    "kill": kill,
    "start": start,
    "label": label,
}


def described(bed: Bed) -> dict[str, Any]:
    """All there is to know about a bed; `alive` and `ready` say it of the whole."""
    plan, processes = bed.plan, bed.processes
    daemons = {}
    for name in plan.daemons:
        process = processes.get(name)
        alive = process is not None and process.is_alive
        problem = "" if alive else "not running"
        if alive:
            try:
                ready.check(plan, name)
            except ready.NotYet as why:
                problem = str(why)
        daemons[name] = {
            "pid": process.pid if process and alive else None,
            "alive": alive,
            "ready": not problem,
            "problem": problem,
            "memory": process.memory() if process and alive else 0,
            "ports": plan.ports[name],
            "web": plan.web(name),
            "log": plan.log(name),
        }
    return {
        "dir": bed.dir,
        "hadoop": plan.options.hadoop,
        "conf": plan.conf(),
        "filesystem": f"hdfs://{plan.address('namenode', 'rpc')}",
        "resourcemanager": plan.address("resourcemanager", "client"),
        "alive": all(d["alive"] for d in daemons.values()),
        "ready": all(d["ready"] for d in daemons.values()),
        "daemons": daemons,
    }


def text(found: dict[str, Any]) -> str:
    lines = [f"{'DAEMON':16} {'PID':>8} {'MEMORY':>8}  {'STATE':14} WEB"]
    for name, daemon in found["daemons"].items():
        state = "ready" if daemon["ready"] else daemon["problem"]
        memory = f"{daemon['memory'] // 2**20} MB" if daemon["alive"] else "-"
        lines.append(f"{name:16} {daemon['pid'] or '-':>8} {memory:>8}  {state:14} {daemon['web']}")
    if found["alive"]:
        lines += [
            "",
            f"export HADOOP_CONF_DIR={found['conf']}",
            f"Hadoop {found['hadoop']}, ResourceManager {found['resourcemanager']}, "
            f"{found['filesystem']}",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
