"""`python -m testbeds.kubernetes`: what is typed, and what is printed."""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from dromon.errors import DromonError, UsageError
from testbeds import cache
from testbeds.kubernetes import images, programs
from testbeds.kubernetes.api import NotYet
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import IMAGE, KUBERNETES, MOST_NODES, VOLCANO, Options


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
        prog="python -m testbeds.kubernetes",
        description="A real Kubernetes with Volcano on this machine.",
    )
    root.add_argument(
        "--dir",
        default=str(cache.folder() / "kubernetes" / "run"),
        help="where this bed lives (default: %(default)s)",
    )
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("build", help="make the programs and images, and start nothing")
    up = commands.add_parser("up", help="bring it up; does nothing for what runs already")
    up.add_argument("--nodes", type=int, default=2, metavar="N", help="real nodes")
    up.add_argument(
        "--gpus", type=int, default=2, metavar="N", help="of each real node; they are a number only"
    )
    up.add_argument("--fake-nodes", type=int, default=0, metavar="N", help="nodes that run nothing")
    up.add_argument("--fake-gpus", type=int, default=8, metavar="N", help="of each fake node")
    up.add_argument(
        "--expiry",
        type=int,
        metavar="SECONDS",
        help="give up silent nodes after that, and their pods (Kubernetes' own: 40, and 300)",
    )
    up.add_argument("--no-volcano", action="store_true", help="plain Kubernetes")
    up.add_argument("--scheduler-conf", metavar="FILE", help="another configuration for Volcano's")
    commands.add_parser("down", help="end it and forget its data")
    status = commands.add_parser("status", help="what runs, and where")
    status.add_argument("-o", "--output", choices=["text", "json"], default="text")
    for name, text in (
        ("logs", "what a component said"),
        ("kill", "kill a component"),
        ("crash", "end all of a node at once, as if its power failed"),
        ("start", "start a killed component again, with the data it had"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("name", metavar="NAME", help="etcd, apiserver, …, containerd2, node2")
        if name == "kill":
            command.add_argument("--signal", default="KILL", help="KILL, TERM, STOP, CONT …")
    kubectl = commands.add_parser("kubectl", help="Kubernetes' own command, as the administrator")
    kubectl.add_argument("words", nargs=argparse.REMAINDER, metavar="…")
    return root


def build(bed: Bed, args: argparse.Namespace) -> None:
    images.archives(bed.tell)


def up(bed: Bed, args: argparse.Namespace) -> None:
    if not 1 <= args.nodes <= MOST_NODES:
        raise UsageError(f"A bed has 1 to {MOST_NODES} nodes.")
    if args.expiry is not None and args.expiry < 1:
        raise UsageError("--expiry is at least one second.")
    chosen: dict[str, Any] = {}
    if args.scheduler_conf:
        try:
            chosen["scheduler_conf"] = Path(args.scheduler_conf).read_text()
        except OSError as error:
            raise UsageError(f"--scheduler-conf: {error}") from None
    begin = time.monotonic()
    bed.up(
        Options(
            nodes=args.nodes,
            gpus_per_node=args.gpus,
            fake_nodes=args.fake_nodes,
            fake_gpus=args.fake_gpus,
            expiry=args.expiry,
            volcano=not args.no_volcano,
            **chosen,
        )
    )
    print(f"up after {time.monotonic() - begin:.0f} s", file=sys.stderr)
    print(text(described(bed)))


def down(bed: Bed, args: argparse.Namespace) -> None:
    bed.down()


def status(bed: Bed, args: argparse.Namespace) -> int:
    found = described(bed)
    print(json.dumps(found, indent=2) if args.output == "json" else text(found))
    return 0 if found["alive"] else 1


def logs(bed: Bed, args: argparse.Namespace) -> None:
    if args.name not in bed.plan.components:
        raise UsageError(
            f"There is no component {args.name!r}.",
            hint=f"There are {', '.join(bed.plan.components)}.",
        )
    with open(bed.plan.log(args.name), errors="replace") as file:
        for line in file:
            sys.stdout.write(line)


def kill(bed: Bed, args: argparse.Namespace) -> None:
    name = args.signal.upper().removeprefix("SIG")
    if f"SIG{name}" not in signal.Signals.__members__:
        raise UsageError(f"There is no signal {args.signal!r}.", hint="KILL, TERM, STOP, CONT …")
    bed.kill(args.name, signal.Signals[f"SIG{name}"])


def crash(bed: Bed, args: argparse.Namespace) -> None:
    bed.crash(args.name)


def start(bed: Bed, args: argparse.Namespace) -> None:
    bed.start(args.name)


def kubectl(bed: Bed, args: argparse.Namespace) -> None:
    program = programs.get(bed.tell).cluster
    os.execv(program, [program, "kubectl", f"--kubeconfig={bed.kubeconfig}", *args.words])


COMMANDS = {
    "build": build,
    "up": up,
    "down": down,
    "status": status,
    "logs": logs,
    "kill": kill,
    "crash": crash,
    "start": start,
    "kubectl": kubectl,
}


def described(bed: Bed) -> dict[str, Any]:
    """All there is to know about a bed; `alive` and `ready` say it of the whole."""
    plan, processes = bed.plan, bed.processes
    components = {}
    for name in plan.components:
        process = processes.get(name)
        alive = process is not None and process.is_alive
        problem = "" if alive else "not running"
        if alive:
            try:
                bed.check(name)
            except NotYet as why:
                problem = str(why)
        components[name] = {
            "pid": process.pid if process and alive else None,
            "alive": alive,
            "ready": not problem,
            "problem": problem,
            "memory": process.memory() if process and alive else 0,
            "log": plan.log(name),
        }
    return {
        "dir": bed.dir,
        "kubernetes": KUBERNETES,
        "volcano": VOLCANO if plan.options.volcano else None,
        "kubeconfig": plan.kubeconfig,
        "users": {user: bed.kubeconfig_of(user) for user in ("alice", "alice-token", "bob")},
        "server": plan.server,
        "shared": plan.shared,
        "image": IMAGE,
        "alive": all(c["alive"] for c in components.values()),
        "ready": all(c["ready"] for c in components.values()),
        "components": components,
    }


def text(found: dict[str, Any]) -> str:
    lines = [f"{'COMPONENT':20} {'PID':>8} {'MEMORY':>8}  STATE"]
    for name, component in found["components"].items():
        state = "ready" if component["ready"] else component["problem"]
        memory = f"{component['memory'] // 2**20} MB" if component["alive"] else "-"
        lines.append(f"{name:20} {component['pid'] or '-':>8} {memory:>8}  {state}")
    if found["alive"]:
        lines += [
            "",
            f"export KUBECONFIG={found['kubeconfig']}",
            f"Kubernetes {found['kubernetes']}, Volcano {found['volcano'] or 'none'}, "
            f"{found['server']}; image {found['image']}; shared {found['shared']}",
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
