"""A site's data, changed: by `KEY=VALUE` of one queue, or because its file has changed meanwhile.

Data is what a file says, before it is checked: plain mappings. Nothing is checked here but what the
command line itself gets wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dromon.errors import JobFileError, UsageError
from dromon.site.model import Queue
from dromon.spec.document import read
from dromon.spec.words import choice

Data = dict[str, Any]
FILE = "command line"


def with_queue(data: Mapping[str, Any], queue: str, settings: Sequence[str]) -> Data:
    """With these `KEY=VALUE` of one queue; `KEY=` takes it out again, `limit.gpus=4` sets one of
    several, and what is a list or a mapping is YAML. A queue that is not there yet is made."""
    changed: Data = dict(_queues(data).get(queue) or {})
    for setting in settings:
        name, equals, text = setting.partition("=")
        keys = name.strip().split(".")
        if not equals or not all(keys):
            raise UsageError(f"{setting!r} sets nothing", hint="Write for example limit.gpus=4.")
        if keys[0] not in Queue.model_fields:
            hint = choice(keys[0], Queue.model_fields)
            raise UsageError(f"queues have no key {keys[0]!r}", hint=hint[:1].upper() + hint[1:])
        changed = _set(changed, keys, _value(text) if text.strip() else None)
    return {**data, "queues": {**_queues(data), queue: changed}}


def without_queue(data: Mapping[str, Any], queue: str) -> Data:
    left = {name: each for name, each in _queues(data).items() if name != queue}
    return {**data, "queues": left}


def _queues(data: Mapping[str, Any]) -> Data:
    found = data.get("queues")
    return dict(found) if isinstance(found, dict) else {}


def _value(text: str) -> Any:
    try:
        return read(text, FILE).data
    except JobFileError as error:
        raise UsageError("; ".join(problem.text for problem in error.problems)) from None


def _set(data: Any, keys: Sequence[str], value: Any) -> Data:
    whole = dict(data) if isinstance(data, dict) else {}
    key, *rest = keys
    made = _set(whole.get(key), rest, value) if rest else value
    if made is None or made == {}:
        whole.pop(key, None)
    else:
        whole[key] = made
    return whole


_MISSING = object()


def merged(before: Any, live: Any, after: Any) -> Any:
    """The file changed from `before` to `after` while `live` was in force: key by key, what was
    changed last counts, wherever that was done."""
    if live == before:
        return after
    if after == before:
        return live
    if not (isinstance(live, dict) and isinstance(after, dict)):
        return after
    old = before if isinstance(before, dict) else {}
    sides = {
        key: merged(*(each.get(key, _MISSING) for each in (old, live, after)))
        for key in {**after, **live}
    }
    return {key: value for key, value in sides.items() if value is not _MISSING}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What changed, as `queues.research.limit.gpus: 4 -> 8`, for the history."""
    return _differences(before, after, "")


def _differences(before: Any, after: Any, path: str) -> list[str]:
    if before == after:
        return []
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return [f"{path}: {_told(before)} -> {_told(after)}"]
    found: list[str] = []
    for key in {**before, **after}:
        place = f"{path}.{key}" if path else str(key)
        found += _differences(before.get(key, _MISSING), after.get(key, _MISSING), place)
    return found


def _told(value: Any) -> str:
    if value is _MISSING:
        return "-"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_told(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_told, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
