"""pydantic's findings -> problems in this product's words."""

import json
from dataclasses import dataclass
from typing import Any

from pydantic_core import ErrorDetails

from dromon.spec.keys import advice, expected
from dromon.spec.model import Environment, Retries, Volume
from dromon.spec.path import Path
from dromon.spec.words import choice, told


@dataclass(frozen=True, slots=True)
class Wrong:
    """A problem at a path of the long form, before anybody knows on which line that is."""

    path: Path
    text: str
    suggestion: str = ""
    at_key: bool = False
    about: tuple[Path, ...] = ()  # further paths it was judged by


def wrong_of(error: ErrorDetails, raw: str | None) -> Wrong | None:
    """`raw` is how the value looks in the file, where there is one."""
    kind, value = error["type"], error["input"]
    path: Path = error["loc"]
    # Only our own types judge keys; elsewhere it is a key of that name.
    at_key = kind == "dromon" and path[-1:] == ("[key]",)
    if at_key:
        path = path[:-1]
    context: dict[str, Any] = error.get("ctx", {})
    if kind == "default_factory_not_called":
        return None
    if kind == "dromon":
        return Wrong((*path, *context["path"]), context["text"], context["suggestion"], at_key)
    if kind == "extra_forbidden":
        return Wrong(path, "unknown key", advice(path, value), at_key=True)
    if kind == "missing":
        return Wrong(path, "missing", at_key=True)
    if kind in ("string_type", "string_unicode", "string_pattern_mismatch"):
        return _text(path, kind, value, raw, at_key)
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return Wrong(path, f"expected a mapping, got {told(value)}", _mapping_hint(path, value))
    text = _SENTENCES.get(kind)
    if text is not None:
        return Wrong(path, f"{text}, got {told(value)}", _bare_hint(kind, value), at_key)
    if kind == "literal_error":
        known = [word.strip("' ") for word in context["expected"].replace(" or ", ",").split(",")]
        return Wrong(path, f"expected {' or '.join(known)}, got {told(value)}",
                     choice(value, known) if isinstance(value, str) else "")  # fmt: skip
    if kind in ("greater_than_equal", "less_than_equal"):
        limit = context.get("ge", context.get("le"))
        word = "at least" if kind == "greater_than_equal" else "at most"
        return Wrong(path, f"expected {word} {limit:,g}, got {told(value)}")
    return Wrong(path, f"{error['msg'][0].lower()}{error['msg'][1:]}, got {told(value)}")


_SENTENCES = {
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "int_parsing_size": "expected a smaller number",
    "float_type": "expected a number",
    "finite_number": "expected a number",
    "bool_type": "expected true or false",
    "list_type": "expected a list",
    "invalid_key": "expected a key that is text",
}


def _text(path: Path, kind: str, value: object, raw: str | None, at_key: bool) -> Wrong:
    if kind == "string_unicode":
        return Wrong(path, "has half a character (a lone surrogate) in it", at_key=at_key)
    if kind == "string_pattern_mismatch":
        nul = isinstance(value, str) and "\0" in value
        return Wrong(path, "has a NUL character in it" if nul else "is empty", at_key=at_key)
    if not isinstance(value, (bool, int, float)):
        return Wrong(path, f"expected text, got {told(value)}", at_key=at_key)
    if path[-1:] == ("python",):
        if raw is None:
            return Wrong(path, f"expected text, got {told(value)}", 'quote it, as in "3.11"')
        return Wrong(path, f"{raw} without quotes is {told(value)}", f'quote it: python: "{raw}"')
    quoted = raw if raw is not None else json.dumps(value)
    return Wrong(path, f"expected text, got {told(value)}", f'quote it: "{quoted}"', at_key)


def _mapping_hint(path: Path, value: object) -> str:
    kind, _ = expected(path)
    if kind is Retries and type(value) is int:
        return f"write {{max: {value}}}"
    if kind is Volume and isinstance(value, str) and value.isprintable() and len(value) < 60:
        return f"write {{source: {value}}}"
    if kind is Environment and isinstance(value, list):
        return "write {packages: […]}"
    return ""


def _bare_hint(kind: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > 60 or not value.isprintable():
        return ""
    if kind == "list_type":
        return f"write [{value}]"
    if kind in ("int_type", "float_type") and value.strip().replace(".", "", 1).isdigit():
        return f"write {value.strip()} without quotes"
    if kind == "bool_type" and value.lower() in ("yes", "on", "y", "true"):
        return "write true"
    if kind == "bool_type" and value.lower() in ("no", "off", "n", "false"):
        return "write false"
    return ""
