"""Commands, policies and plain data as the models' types."""

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainValidator, WithJsonSchema

from dromon.lifecycle.plan import ACTIONS, EVENTS
from dromon.spec.path import Path, clipped
from dromon.spec.quantities import positive_duration
from dromon.spec.words import choice, told, wrong

DEPTH_LIMIT = 64


def _command(value: object) -> str | list[str]:
    if isinstance(value, str):
        if not value.strip():
            raise wrong("an empty command")
        _refuse_unspeakable(value)
        return value
    if not isinstance(value, (list, tuple)):
        raise wrong(f"expected a command line or a list of arguments, got {told(value)}")
    if not value or not value[0]:
        raise wrong("an empty command")
    for at, word in enumerate(value):
        if not isinstance(word, str):
            quoted = f'quote it: "{word}"' if isinstance(word, (int, float)) else ""
            raise wrong(f"expected text, got {told(word)}", quoted, (at,))
        _refuse_unspeakable(word, (at,))
    return list(value)


def _refuse_unspeakable(text: str, path: Path = ()) -> None:
    """NUL and halves of characters cannot be handed to a process."""
    if "\0" in text:
        raise wrong("has a NUL character in it", "", path)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise wrong("has half a character (a lone surrogate) in it", "", path) from None


Command = Annotated[
    str | list[str],
    PlainValidator(_command),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]


def _event(value: object) -> str:
    if not isinstance(value, str):
        raise wrong(f"expected an event, got {told(value)}")
    if value in EVENTS:
        return value
    kind, colon, rest = value.partition(":")
    if kind == "exit_code" and colon:
        if rest.isascii() and rest.isdigit() and len(rest) <= 3 and int(rest) <= 255:
            return f"exit_code:{int(rest)}"
        raise wrong("an exit code is a number from 0 to 255", "write for example exit_code:3")
    if kind == "pending" and colon:
        positive_duration(rest)
        return value
    known = (*EVENTS, "exit_code:N", "pending:10m")
    raise wrong("unknown event", choice(value, known))


def _action(value: object) -> str:
    if isinstance(value, str) and value in ACTIONS:
        return value
    if not isinstance(value, str):
        raise wrong(f"expected an action, got {told(value)}", f"one of {', '.join(ACTIONS)}")
    raise wrong(f"unknown action {told(value)}", choice(value, ACTIONS))


Event = Annotated[str, PlainValidator(_event), WithJsonSchema({"type": "string"})]
Action = Annotated[
    str, PlainValidator(_action), WithJsonSchema({"type": "string", "enum": list(ACTIONS)})
]


def _plain(value: object) -> object:
    """Lists, mappings, texts, numbers, booleans and null, all the way down."""
    if not isinstance(value, dict):
        raise wrong(f"expected a mapping, got {told(value)}")
    _refuse_unplain(value, (), 0)
    return value


def _refuse_unplain(value: object, path: Path, depth: int) -> None:
    if value is None or isinstance(value, (bool, int)):
        return
    if isinstance(value, str):
        if "\0" in value or not value.isascii():
            _refuse_unspeakable(value, path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise wrong(f"{value} has no place in JSON", "quote it", path)
    elif depth >= DEPTH_LIMIT:
        raise wrong(f"nested more than {DEPTH_LIMIT} deep")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise wrong(f"the key {clipped(repr(key))} is not text", "quote it", path)
            _refuse_unspeakable(key, path)
            _refuse_unplain(item, (*path, key), depth + 1)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            _refuse_unplain(item, (*path, at), depth + 1)
    else:
        raise wrong(f"expected plain data, got a {type(value).__name__}", "", path)


Plain = Annotated[dict[str, Any], BeforeValidator(_plain)]
