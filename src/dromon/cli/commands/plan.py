"""`dromon plan`: the native request of each engine, and what that engine cannot give."""

from __future__ import annotations

import sys

from dromon.cli.parser import complete
from dromon.cli.plain import plain, print_json
from dromon.cli.target import add_target, call_arguments
from dromon.units import format_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about(
        "Print what each engine would be asked for, without asking. What an engine cannot give is "
        "listed with it.",
        examples="""
dromon plan job.yaml
dromon plan job.yaml --on local,yarn
dromon plan job.yaml --on yarn -o json
dromon plan job.yaml --on kubernetes | kubectl apply -f -
dromon plan train.py --gpus 1 -- --lr 3
""",
    )
    add_target(parser)
    complete(
        parser.add_argument("--on", metavar="NAMES", help="as local,yarn; names of contexts too"),
        "context",
    )
    parser.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="default: yaml"
    )


def execute(args: Namespace, api: Api) -> int:
    engines = [name.strip() for name in (args.on or "").split(",") if name.strip()]
    plans = api.plan(on=engines or None, **call_arguments(args))
    if args.output == "json":
        print_json(plans)
    else:
        if len(plans) > 1:
            sys.stdout.write("".join(f"# {line}\n" for line in compared(plans)))
        for one in plans:
            if "manifest" in one:
                print_manifest(one, several=len(plans) > 1)
            else:
                print_yaml(plain(one), several=len(plans) > 1)
    return 0


def print_manifest(plan: dict[str, Any], *, several: bool) -> None:
    """What can be applied as it stands; what else is to be said is said beside it."""
    for line in () if several else compared([plan]):
        sys.stderr.write(f"{line}\n")
    sys.stdout.write(plan["manifest"])


def print_yaml(plan: dict[str, Any], *, several: bool) -> None:
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 4096
    if several:
        sys.stdout.write(f"---\n# {plan.get('on') or plan.get('engine', '')}\n")
    yaml.dump(plan, sys.stdout)


def compared(plans: list[dict[str, Any]]) -> Iterator[str]:
    """What is not the same everywhere, an engine to a line: the grace, and what it cannot give."""
    names = [str(plan.get("on") or plan.get("engine", "")) for plan in plans]
    width = max(map(len, names))
    for name, plan in zip(names, plans, strict=True):
        grace = plan.get("grace")
        said = [] if grace is None else [f"grace {format_duration(grace)}"]
        lacks = ", ".join(f"{key} ({why})" for key, why in (plan.get("lacks") or {}).items())
        said.append(f"cannot give {lacks}" if lacks else "gives all that is asked")
        yield f"{name:<{width}}  {'; '.join(said)}"
        for note in plan.get("notes") or ():
            yield f"{'':<{width}}  note: {note}"
