import json
import re
from typing import Any

import pytest

from dromon.spec.document import read
from dromon.spec.schema import json_schema

SCHEMA = json_schema()
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
    "null": (type(None),), "array": (list,), "object": (dict,),
}  # fmt: skip
KNOWN = {
    "$ref", "$schema", "$defs", "title", "description", "default", "examples", "type", "enum",
    "const", "anyOf", "not", "required", "properties", "additionalProperties", "propertyNames",
    "items", "minItems", "minLength", "maxLength", "pattern", "minimum", "maximum",
    "patternProperties",
}  # fmt: skip


def accepts(schema: Any, value: Any) -> bool:
    """As much of JSON Schema as the job file's schema uses; anything else is an error."""
    if isinstance(schema, bool):
        return schema
    assert schema.keys() <= KNOWN, schema.keys() - KNOWN
    if "$ref" in schema and not accepts(SCHEMA["$defs"][schema["$ref"].split("/")[-1]], value):
        return False
    kinds = schema.get("type")
    if kinds is not None:
        names = [kinds] if isinstance(kinds, str) else kinds
        allowed = tuple(kind for name in names for kind in TYPES[name])
        if not isinstance(value, allowed) or (isinstance(value, bool) and "boolean" not in names):
            return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "const" in schema and value != schema["const"]:
        return False
    if "anyOf" in schema and not any(accepts(option, value) for option in schema["anyOf"]):
        return False
    if "not" in schema and accepts(schema["not"], value):
        return False
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0) or len(value) > schema.get("maxLength", 10**9):
            return False
        return re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, (int, float)):
        return schema.get("minimum", value) <= value <= schema.get("maximum", value)
    if isinstance(value, list):
        items = schema.get("items", True)
        enough = len(value) >= schema.get("minItems", 0)
        return enough and all(accepts(items, item) for item in value)
    if isinstance(value, dict):
        if any(key not in value for key in schema.get("required", ())):
            return False
        known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        names = schema.get("propertyNames", True)
        patterns = schema.get("patternProperties", {})
        for key, item in value.items():
            matching = [s for p, s in patterns.items() if re.search(p, key)]
            if not accepts(names, key) or not all(accepts(s, item) for s in matching):
                return False
            if not matching and not accepts(known.get(key, more), item):
                return False
    return True


@pytest.mark.parametrize(
    "text",
    [
        "command: x",
        "command: [python, train.py]\nreplicas: 2\nresources: {gpus: {a100: 2}, memory: 16GiB}",
        "roles: {worker: {command: x, env: {A: null}}}\nmax_duration: 8h\npriority: 5",
        "framework: mxnet\nroles: {worker: {command: x}, server: {replicas: 2}}",
        "command: x\nvolumes: {a: {source: /b, access: mount}}\npolicies: {exit_code:3: ignore}",
        "command: x\nconfig: {a: [1, {b: null}]}\nacls: {view: [a]}\nretries: {max: 2}",
    ],
)
def test_the_schema_accepts_both_forms(text: str) -> None:
    assert accepts(SCHEMA, read(text, "f").data)


@pytest.mark.parametrize(
    "text",
    [
        "replicas: 2",
        "command: x\nqeue: a",
        "command: x\nroles: {worker: {command: y}}",
        "command: x\nreplicas: four",
        "command: x\nframework: pytorch",
        "command: x\nenvironment: {python: 3.10}",
        "command: x\nenv: {A: 1}",
        "roles: {worker: {command: x, resorces: {}}}",
        "command: x\npolicies: {member_lost: restart}",
        "command: x\nname: My_Job",
    ],
)
def test_the_schema_refuses_what_the_check_refuses(text: str) -> None:
    assert not accepts(SCHEMA, read(text, "f").data)


def test_every_key_is_described() -> None:
    json.dumps(SCHEMA)
    for model in (SCHEMA, *SCHEMA["$defs"].values()):
        for name, key in model["properties"].items():
            assert key.get("description"), name
