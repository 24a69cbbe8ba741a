"""`dromon plan`: the native request of each engine, and what that engine cannot give."""

from __future__ import annotations

import sys

from dromon.cli.plain import plain, print_json
from dromon.cli.target import add_target, call_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about(
        "Print what each engine would be asked for, without asking. What an engine cannot give is "
        "listed with it.",
        examples="""
dromon plan job.yaml
dromon plan job.yaml --on local -o json
dromon plan train.py --gpus 1 -- --lr 3
""",
    )
    add_target(parser)
    parser.add_argument("--on", default="local", metavar="ENGINES", help="as local,yarn")
    parser.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="default: yaml"
    )


def execute(args: Namespace, api: Api) -> int:
    engines = [name.strip() for name in args.on.split(",") if name.strip()]
    plans = api.plan(on=engines, **call_arguments(args))
    if args.output == "json":
        print_json(plans)
    else:
        for one in plans:
            print_yaml(plain(one), several=len(plans) > 1)
    return 0


def print_yaml(plan: dict[str, Any], *, several: bool) -> None:
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 4096
    if several:
        sys.stdout.write(f"---\n# {plan.get('engine', '')}\n")
    yaml.dump(plan, sys.stdout)
