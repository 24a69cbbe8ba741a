"""`a.b.c=value` on the command line: set in the long form, read as the models want it.

Where text is wanted, the value is taken as typed (`environment.python=3.10` stays "3.10");
everywhere else it is YAML, so `[1, 2]` is a list and `1e-4` a number.
"""

from collections.abc import Iterable
from typing import Any, get_args, get_origin

from dromon.errors import JobFileError
from dromon.spec.document import read
from dromon.spec.keys import SHORT_KEYS, expected, is_part
from dromon.spec.path import Path
from dromon.spec.sentences import Wrong
from dromon.spec.words import nearest

FILE = "command line"  # in place of a file's name


def apply(
    data: dict[str, Any], overrides: Iterable[str]
) -> tuple[dict[str, Any], list[Path], list[Wrong]]:
    """The data with the overrides in it, the paths they set, and what is wrong with them."""
    paths: list[Path] = []
    wrongs: list[Wrong] = []
    for override in overrides:
        done = _one(data, override)
        if isinstance(done, Wrong):
            wrongs.append(done)
        else:
            data, path = done
            paths.append(path)
    return data, paths, wrongs


def _one(data: dict[str, Any], override: str) -> tuple[dict[str, Any], Path] | Wrong:
    name, equals, text = override.partition("=")
    names = _names(name.strip())
    if not equals or not names or not all(names):
        return Wrong((), f"{override!r} is not an override", "write for example replicas=8")
    if names[0] in SHORT_KEYS:
        roles = data.get("roles")
        known = list(roles) if isinstance(roles, dict) else []
        if len(known) != 1:
            places = " or ".join(f"roles.{role}.{names[0]}" for role in known)
            return Wrong((names[0],), "of which role?", f"write {places or 'roles.NAME.…'}")
        names = ["roles", known[0], *names]
    elif names[0] == "roles" and len(names) > 2:
        roles = data.get("roles")
        if isinstance(roles, dict) and names[1] not in roles:
            hint = nearest(names[1], roles) or f"the roles are {', '.join(map(str, roles))}"
            return Wrong(("roles", names[1]), "no such role", hint)
    path = _path(data, names)
    try:
        value = _value(path, text)
    except JobFileError as error:
        return Wrong(path, "; ".join(problem.text for problem in error.problems))
    return _set(data, path, value), path


def _names(text: str) -> list[str]:
    """`a."b.c".d` -> a, b.c, d."""
    names: list[str] = []
    at = 0
    while at <= len(text):
        if text[at : at + 1] == '"' and '"' in text[at + 1 :]:
            end = text.index('"', at + 1)
            names.append(text[at + 1 : end])
            end += 1
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            names.append(text[at:end])
        at = end + 1
    return names


def _path(data: Any, names: list[str]) -> Path:
    """Names -> keys. A key that is there already may have dots in it; a list's key is a number."""
    path: list[str | int] = []
    rest = list(names)
    while rest:
        kind, _ = expected(tuple(path))
        if _is_flat(kind):
            return (*path, ".".join(rest))
        used = 1
        key: str | int = rest[0]
        if isinstance(data, dict) and not is_part(kind):
            for more in range(len(rest), 0, -1):
                if ".".join(rest[:more]) in data:
                    key, used = ".".join(rest[:more]), more
                    break
        elif isinstance(data, list) and rest[0].isdecimal():
            key = int(rest[0])
        path.append(key)
        rest = rest[used:]
        if isinstance(data, dict):
            data = data.get(key)
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            data = None
    return tuple(path)


def _is_flat(kind: Any) -> bool:
    """A mapping of texts, such as `files`: whatever follows is one key, dots and all."""
    return (
        get_origin(kind) is dict
        and get_args(kind)[-1] is not Any
        and not is_part(get_args(kind)[-1])
    )


def _value(path: Path, text: str) -> Any:
    kind, nullable = expected(path)
    if nullable and text == "null":
        return None
    wants_text = kind is str or (str in get_args(kind) and not text.lstrip().startswith("["))
    if wants_text and int not in get_args(kind):
        quoted = text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1
        return read(text, FILE).data if quoted else text
    return read(text, FILE).data if text else ""


def _set(data: Any, path: Path, value: Any) -> Any:
    """A copy with one value changed; what is not on the path is shared with the original."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(data, list) and isinstance(key, int):
        copy = list(data)
        if key < len(copy):
            copy[key] = _set(copy[key], rest, value)
        else:
            copy.append(_set(None, rest, value))
        return copy
    whole = dict(data) if isinstance(data, dict) else {}
    whole[key] = _set(whole.get(key), rest, value)
    return whole
