"""`dromon schema`: the job file's JSON Schema."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dromon.cli.calls import Api
    from dromon.cli.parser import Namespace, Parser


def configure(parser: Parser) -> None:
    parser.about(
        "Print the JSON Schema of the job file, so that an editor can complete and check it.",
        examples="""
dromon schema > dromon.schema.json
""",
    )


def execute(args: Namespace, api: Api) -> int:
    from dromon.cli.plain import print_json
    from dromon.spec.schema import json_schema

    print_json(json_schema())
    return 0
