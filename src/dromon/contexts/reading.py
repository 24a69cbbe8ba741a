"""The text of contexts.json as contexts; a mistake in it with its place. Nothing is opened here."""

from __future__ import annotations

import json
from typing import Any

from dromon.contexts.file import KINDS, MEND, SETTINGS, Context, ContextError, near


def parse(path: str, text: str) -> tuple[str, dict[str, Context]]:
    """The default's name, or "", and the contexts in the file's order."""
    try:
        data = json.loads(text)
    except ValueError as error:
        place = f"{path}:{getattr(error, 'lineno', 1)}:{getattr(error, 'colno', 1)}"
        raise ContextError(
            f"{place}: not JSON: {getattr(error, 'msg', error)}", hint=MEND
        ) from None
    except RecursionError:
        raise ContextError(f"{path}: it nests too deep", hint=MEND) from None
    return _Reader(path, text).read(data)


class _Reader:
    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    def wrong(self, words: str, *keys: str) -> ContextError:
        """At the last of `keys`, each looked for after the one before it."""
        at = 0
        for key in keys:
            found = self.text.find(json.dumps(key, ensure_ascii=False), at)
            at = at if found < 0 else found
        line, column = self.text.count("\n", 0, at) + 1, at - self.text.rfind("\n", 0, at)
        where = f"{'.'.join(keys)}: " if keys else ""
        return ContextError(f"{self.path}:{line}:{column}: {where}{words}", hint=MEND)

    def read(self, data: Any) -> tuple[str, dict[str, Context]]:
        if not isinstance(data, dict):
            raise self.wrong("expected {…}")
        for key in data:
            if key not in ("default", "contexts"):
                raise self.wrong(f"unknown key{near(key, ('default', 'contexts'))}", key)
        contexts = data.get("contexts", {})
        if not isinstance(contexts, dict):
            raise self.wrong("expected {…}", "contexts")
        found = {name: self.context(name, each) for name, each in contexts.items()}
        default = data.get("default", "")
        if not isinstance(default, str) or (default and default not in found):
            raise self.wrong(f"there is no context {default!r}", "default")
        return default, found

    def context(self, name: str, data: Any) -> Context:
        keys = ("contexts", name)
        if not isinstance(data, dict):
            raise self.wrong("expected {…}", *keys)
        kind = data.get("kind")
        if kind not in KINDS:
            raise self.wrong(f"expected {' or '.join(KINDS)}", *keys, "kind")
        known = ("kind", "where", *SETTINGS[kind], "properties")
        for key, value in data.items():
            if key not in known:
                raise self.wrong(f"unknown key{near(key, known)}", *keys, key)
            if key == "properties":
                self.properties(value, *keys, key)
            elif not isinstance(value, str):
                raise self.wrong("expected text", *keys, key)
        if not data.get("where"):
            raise self.wrong("where is missing", *keys)
        return Context(name=name, **data)

    def properties(self, value: Any, *keys: str) -> None:
        if not isinstance(value, dict):
            raise self.wrong("expected {…}", *keys)
        for key, each in value.items():
            if not isinstance(each, str):
                raise self.wrong("expected text", *keys, key)
