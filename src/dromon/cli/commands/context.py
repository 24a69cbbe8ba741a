"""`dromon context`: names for the clusters jobs can go to."""

from __future__ import annotations

import sys
from argparse import SUPPRESS

from dromon.cli.console import Console, Paint, wants_colour, width_of
from dromon.cli.parser import add_output, complete
from dromon.cli.table import Column, render
from dromon.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser
    from dromon.cli.table import Cell
    from dromon.contexts.file import Context, Contexts

ACTIONS = ("add", "list", "show", "remove", "use")
SHOWN = 6  # names of queues; of more, how many


def configure(parser: Parser) -> None:
    parser.about(
        "Give a cluster a name, so that `--on NAME` sends jobs there. A YARN cluster is known by "
        "its ResourceManager (host:port of its RPC, or the address of its pages) or by a "
        "directory of *-site.xml files, a Kubernetes cluster by a context of the kubeconfig, or "
        "by PATH#CONTEXT of another one. It is asked once, and what it says is shown. Settings of "
        "both: queue (for jobs that name none), user, store (where records and blobs lie), "
        "platform (where the nodes are not like this machine). YARN: shared (a path all nodes "
        "see, for checkpoints), python_tarball, public_root (blobs all users share); a key with "
        "dots in it is a property of Hadoop's. Kubernetes: namespace, image (for jobs that name "
        "none), python (in that image), pull, store (nfs://server/path, pvc:CLAIM, or a path of "
        "the nodes), mounted (where this machine sees the store), blobs "
        "(s3://bucket/prefix, for code and environments), run_as, label.WORD.",
        examples="""
dromon context add prod --yarn rm.example.com:8032
dromon context add prod --yarn http://rm.example.com:8088 --set queue=research
dromon context add prod --yarn /etc/hadoop/conf --default
dromon context add k8s --kubernetes --set image=python:3.12 --set store=nfs://nas/dromon
dromon context list
dromon context use prod         jobs go there unless --on says otherwise
dromon context use local        and here again
""",
    )
    parser.add_argument("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS))
    name = parser.add_argument("name", metavar="NAME", nargs="?", help="the context")
    complete(name, "context")
    add = parser.add_argument_group("add").add_argument
    add("--yarn", metavar="WHERE", help="rm:8032, http://rm:8088, or a directory of *-site.xml")
    add(
        "--kubernetes", metavar="WHERE", nargs="?", const="current",
        help="a context of the kubeconfig, the current one when left out, or PATH#CONTEXT",
    )  # fmt: skip
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting; repeatable")
    add("--default", action="store_true", help="use it from now on")
    add("--no-check", action="store_true", help="do not ask the cluster")
    parser.add_argument("--names", action="store_true", help=SUPPRESS)  # for completion
    add_output(parser)


def execute(args: Namespace, api: Api) -> int:
    check(args)
    console = Console()
    if args.action == "add":
        return add_one(args, api, console)
    if args.action == "remove":
        api.remove_context(args.name)
        console.say(f"removed the context {args.name}; its jobs go on")
    elif args.action == "use":
        api.use_context(args.name)
        console.say(f"jobs go to {args.name} from now on, unless --on says otherwise")
    elif args.action == "show":
        show(api.contexts(), args)
    else:
        print_list(api.contexts(), args, console)
    return 0


def check(args: Namespace) -> None:
    said = [w for w in ("yarn", "kubernetes", "set", "default", "no_check") if getattr(args, w)]
    if said and args.action != "add":
        raise UsageError(f"context {args.action}: --{said[0].replace('_', '-')} is for add")
    if args.action == "list":
        if args.name:
            raise UsageError(
                "context list takes no name", hint=f"`dromon context show {args.name}`"
            )
    elif not args.name:
        raise UsageError(f"context {args.action}: which one?", hint="`dromon context list`")
    if args.action == "add" and bool(args.yarn) == bool(args.kubernetes):
        raise UsageError(
            "context add: where is it?",
            hint=f"`dromon context add {args.name} --yarn rm:8032`, or an http:// address, or a "
            "directory of *-site.xml files; or --kubernetes.",
        )


def add_one(args: Namespace, api: Api, console: Console) -> int:
    context, said = api.add_context(
        args.name,
        "yarn" if args.yarn else "kubernetes",
        args.yarn or args.kubernetes,
        settings=dict(setting(text) for text in args.set),
        default=args.default,
        check=not args.no_check,
    )
    if args.output:
        from dromon.cli.plain import print_json

        print_json({"name": context.name, **context.to_data(), "found": said})
        return 0
    console.say(f"added the context {context.name}: {context.kind} at {context.where}")
    for line in found(said):
        console.line(f"  {line}")
    on = "" if args.default else f" --on {context.name}"
    console.line(console.paint(f"next: dromon nodes{on} · dromon run job.yaml{on}", "dim"))
    return 0


def setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set {text}: expected KEY=VALUE", hint="As --set queue=research")
    return key, value


def found(said: Mapping[str, Any]) -> list[str]:
    """What the cluster has told about itself, in a few words."""
    lines = []
    if said.get("version"):
        lines.append(f"version    {said['version']}")
    if said.get("nodes") is not None:
        lines.append(f"nodes      {said['nodes']}")
    if queues := list(said.get("queues") or ()):
        more = f" and {len(queues) - SHOWN} more" if len(queues) > SHOWN else ""
        lines.append(f"queues     {', '.join(queues[:SHOWN])}{more}")
    return lines + [f"note       {note}" for note in said.get("notes") or ()]


def show(contexts: Contexts, args: Namespace) -> None:
    context = contexts.get(args.name)
    if args.output:
        from dromon.cli.plain import print_json

        print_json(entry(context, contexts))
        return
    for key, value in entry(context, contexts).items():
        if key == "properties":
            for name, text in value.items():
                sys.stdout.write(f"{name:<15}{' ' if len(name) > 14 else ''}{text}\n")
        else:
            said = "yes" if value is True else "no" if value is False else value
            sys.stdout.write(f"{key:<15}{said}\n")


def entry(context: Context, contexts: Contexts) -> dict[str, Any]:
    in_use = contexts.default == context.name
    return {"name": context.name, **context.to_data(), "default": in_use}


def print_list(contexts: Contexts, args: Namespace, console: Console) -> None:
    every = list(contexts.by_name.values())
    if args.names:
        sys.stdout.write(
            "".join(f"{name}\n" for name in ("local", "yarn", "kubernetes", *contexts.by_name))
        )
        return
    if args.output:
        from dromon.cli.plain import print_json

        print_json([entry(context, contexts) for context in every])
        return
    if not every:
        console.say("no contexts; `dromon context add NAME --yarn rm:8032` makes one")
        return
    columns = [
        Column(""), Column("NAME"), Column("KIND"), Column("WHERE", least=12),
        Column("QUEUE", optional=True),
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        ["*" if c.name == contexts.default else "", c.name, c.kind, c.where, c.queue] for c in every
    ]
    sys.stdout.write(render(columns, rows, width_of(1), Paint(wants_colour(1))))
