"""The job file as JSON Schema, for editors. Made from the models; takes both forms."""

from typing import Any

from dromon import frameworks
from dromon.spec.keys import SHORT_KEYS
from dromon.spec.model import Job

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Accepts what `load_text` accepts, as far as a schema can tell; a little more besides."""
    schema = Job.model_json_schema()
    properties, role = schema["properties"], schema["$defs"]["Role"]["properties"]
    properties["framework"]["enum"] = list(frameworks.ROLES)
    for key in sorted(SHORT_KEYS):
        described = role[key]["description"]
        properties[key] = {
            **role[key], "description": f"{described} Short form: of the one role `worker`.",
        }  # fmt: skip
    # Roles whose framework runs them may do without a command, so only one key is ever needed.
    short = {"not": {"required": ["roles"]}, "required": ["command"]}
    long = {"not": {"anyOf": [{"required": [key]} for key in sorted(SHORT_KEYS)]},
            "required": ["roles"]}  # fmt: skip
    schema.pop("required")
    return {
        "$schema": DIALECT,
        **_tidied(schema),
        "title": "Dromon job file",
        "anyOf": [long, short],
    }


def _tidied(value: Any) -> Any:
    """Without the titles pydantic makes up, and with a description beside every reference."""
    if isinstance(value, list):
        return [_tidied(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: _tidied(item) for name, item in inside.items()}
        if key in ("properties", "$defs") and isinstance(inside, dict)
        else _tidied(inside)
        for key, inside in value.items()
        if not (key == "title" and isinstance(inside, str))
    }
