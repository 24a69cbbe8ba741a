"""The job file's text: keys in its order, and on top what was not carried over."""

import io
import textwrap
from collections.abc import Sequence
from typing import Any

from dromon.compat.volcano.source import Note

WIDTH = 96


def written(job: dict[str, Any], notes: Sequence[Note], file: str) -> str:
    from ruamel.yaml import YAML

    yaml = YAML()
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(_readable(job), out)
    return _header(notes, file) + out.getvalue()


def _header(notes: Sequence[Note], file: str) -> str:
    # A name is somebody else's text: nothing in it may end the comment.
    name = "".join(c if c.isprintable() else "?" for c in file.rsplit("/", 1)[-1])
    lines = [f"# Imported from {name}."]
    if notes:
        lines.append("# Not as it was there; numbers are lines of that file:")
    for note in notes:
        said = "".join(c if c.isprintable() else " " for c in f"{note.line}: {note.text}")
        lines += textwrap.wrap(said, WIDTH, initial_indent="#   ", subsequent_indent="#     ")
    return "\n".join(lines) + "\n"


def _readable(value: Any) -> Any:
    from ruamel.yaml.scalarstring import LiteralScalarString

    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, str) and "\n" in value and _fits_a_block(value):
        return LiteralScalarString(value)
    return value


def _fits_a_block(text: str) -> bool:
    """Whether a literal block keeps every character of it."""
    lines = text.split("\n")
    plain = all(line == line.rstrip() and line.isprintable() for line in lines)
    return plain and not text.startswith((" ", "\n"))
