"""Sizes, durations, counts and priorities as the models' types.

Validators run only on values that were given, so a job that says little costs little.
"""

import math
import re
from typing import Annotated

from pydantic import Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from dromon.spec.names import word
from dromon.spec.path import Path, clipped
from dromon.spec.words import told, wrong
from dromon.units import parse_duration, parse_size

SMALLEST_MEMORY = 2**20  # below this, somebody forgot the unit
LARGEST_SIZE = 2**60
LONGEST = 10 * 365 * 86400.0

_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z])")


def _in_words(error: Exception, value: object, units: dict[str, str]) -> PydanticCustomError:
    text, _, suggestion = str(error).partition("; ")
    found = _NUMBER.match(value) if isinstance(value, str) else None
    if found and found.group(2).lower() in units:
        suggestion = f"did you mean {found.group(1)}{units[found.group(2).lower()]}?"
    return wrong(text, suggestion)


def _size(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise wrong(f"expected a size such as 16GiB, got {told(value)}")
    try:
        size = parse_size(value)
    except OverflowError:
        size = LARGEST_SIZE + 1
    except ValueError as error:
        units = {"k": "KiB", "m": "MiB", "g": "GiB", "t": "TiB"}
        raise _in_words(error, value, units) from None
    if size > LARGEST_SIZE:
        raise wrong(f"{told(value)} is more than any machine has")
    if size < SMALLEST_MEMORY:
        shown = value if isinstance(value, int) else str(value).strip()
        hint = f"did you mean {shown}GiB?" if str(shown).isdigit() and size else "write 512MiB"
        raise wrong(f"{shown} is {size} bytes, less than 1 MiB", hint)
    return size


def positive_duration(value: object) -> float:
    seconds = _duration(value)
    if seconds <= 0:
        raise wrong("expected more than no time at all")
    return seconds


def _duration(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise wrong(f"expected a duration such as 90s or 2h, got {told(value)}")
    try:
        seconds = parse_duration(value)
    except OverflowError:
        seconds = math.inf
    except ValueError as error:
        units = {"s": "s", "m": "m", "h": "h", "d": "d", "w": "w"}
        raise _in_words(error, value, units) from None
    if math.isnan(seconds) or seconds > LONGEST:
        raise wrong(f"{told(value)} is longer than ten years")
    return seconds


_SIZE_SCHEMA = {"type": ["string", "integer"], "examples": ["512MiB", "16GiB"]}
_DURATION_SCHEMA = {"type": ["string", "number"], "examples": ["90s", "10m", "2h", "1h30m"]}
Size = Annotated[int, PlainValidator(_size), WithJsonSchema(_SIZE_SCHEMA)]
Duration = Annotated[float, PlainValidator(_duration), WithJsonSchema(_DURATION_SCHEMA)]
PositiveDuration = Annotated[
    float, PlainValidator(positive_duration), WithJsonSchema(_DURATION_SCHEMA)
]


def _gpus(value: object) -> int | float | dict[str, int | float]:
    if not isinstance(value, dict):
        return _gpu_number(value)
    kinds: dict[str, int | float] = {}
    for kind, number in value.items():
        word(kind)
        counted = _gpu_number(number, (kind,))
        if not counted:
            raise wrong("expected at least one GPU or a part of one", "", (kind,))
        kinds[kind] = counted
    if not kinds:
        raise wrong("an empty mapping", "write a number, or a kind such as {a100: 2}")
    return kinds


def _gpu_number(value: object, path: Path = ()) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        text = f"expected a number of GPUs such as 1, 0.5 or {{a100: 2}}, got {told(value)}"
        raise wrong(text, f"write {value} without quotes" if _is_number(value) else "", path)
    if not 0 <= value <= 100_000:
        raise wrong(f"{clipped(str(value))} GPUs cannot be", "", path)
    if value != int(value) and value > 1:
        hint = f"write {math.ceil(value)}"
        raise wrong(f"{value} GPUs: a part of a GPU is less than one", hint, path)
    return int(value) if value == int(value) else value


def _is_number(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) is not None


def _priority(value: object) -> str | int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise wrong(f"expected the name of a priority class or a whole number, got {told(value)}")
    if isinstance(value, int):
        if abs(value) > 1_000_000_000:
            raise wrong("a priority lies between -1000000000 and 1000000000")
        return value
    return word(value)


_COUNTED = {"type": "number", "minimum": 0}
Gpus = Annotated[
    int | float | dict[str, int | float],
    PlainValidator(_gpus),
    WithJsonSchema({"anyOf": [_COUNTED, {"type": "object", "additionalProperties": _COUNTED}]}),
]
Priority = Annotated[
    str | int, PlainValidator(_priority), WithJsonSchema({"type": ["string", "integer"]})
]
Replicas = Annotated[int, Field(ge=1, le=100_000)]
Cpus = Annotated[float, Field(ge=0, le=100_000, allow_inf_nan=False)]
