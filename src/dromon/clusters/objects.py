"""Files of Kubernetes objects -> the objects, each value with its place. Nothing is judged here.

YAML of several documents, JSON, and `kind: List`. What cannot be read is one JobFileError with
every problem and its place.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dromon.errors import JobFileError, Problem
from dromon.spec.document import SIZE_LIMIT, Document, read
from dromon.spec.path import Path, shown
from dromon.spec.words import told

# A marker at the first column begins a document wherever it stands, in a block of text too.
_MARKER = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_END = re.compile(r"^\.\.\.(?=[ \t\r\n]|\Z)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Object:
    """One object, or one text of its own. `at` is the place of all of it where parts have none."""

    document: Document
    data: Any
    root: Path = ()
    at: tuple[int, int] | None = None
    lines: Sequence[str] = ()  # of the file

    @property
    def file(self) -> str:
        return self.document.file

    @property
    def kind(self) -> str:
        return str(self.data.get("kind") or "") if isinstance(self.data, dict) else ""

    @property
    def group(self) -> str:
        """Of the API: `batch.volcano.sh`, or "" for the core."""
        version = str(self.data.get("apiVersion") or "") if isinstance(self.data, dict) else ""
        return version.rpartition("/")[0]

    @property
    def name(self) -> str:
        metadata = self.data.get("metadata") if isinstance(self.data, dict) else None
        return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""

    def place(self, *path: str | int, at_key: bool = False) -> tuple[int, int]:
        return self.at or self.document.position((*self.root, *path), at_key=at_key)

    def raw(self, *path: str | int) -> str | None:
        """How a plain scalar looks in the file."""
        node = self.document.find((*self.root, *path))
        return node.raw if node is not None else None


def problem(source: Object, path: Path, text: str, suggestion: str = "") -> Problem:
    return Problem(source.file, *source.place(*path), shown(path), text, suggestion)


def read_objects(text: str | bytes, file: str) -> list[Object]:
    """Every object of a file, in its order. Raises JobFileError."""
    if len(text) > SIZE_LIMIT:
        raise _refusal(file, "is too big: more than 1 MiB", "name fewer objects at once")
    found: list[Object] = []
    problems: list[Problem] = []
    whole = _decoded(text, file)
    lines = whole.split("\n")
    for piece in _pieces(whole):
        document = _read(piece, file)
        problems += document.problems
        if document.data is not None:
            found += _unlisted(Object(document, document.data, lines=lines))
    for each in found:
        if not isinstance(each.data, dict):
            problems.append(problem(each, (), f"expected keys and values, got {told(each.data)}"))
    if problems:
        raise JobFileError(problems)
    return found


def _read(text: str, file: str) -> Document:
    try:
        return read(text, file)
    except JobFileError as error:
        if "{{" not in text:
            raise
        first = error.problems[0]
        hint = "fill it in first, as `helm template` does"
        problem = Problem(file, first.line, first.column, "", "is a template, not YAML yet", hint)
        raise JobFileError([problem]) from None


def _refusal(file: str, text: str, suggestion: str) -> JobFileError:
    return JobFileError([Problem(file, 0, 0, "", text, suggestion)])


def _unlisted(whole: Object) -> Iterator[Object]:
    """What a `kind: List` holds, or a bare list as programs write it."""
    data, root = whole.data, whole.root
    items = data.get("items") if isinstance(data, dict) and data.get("kind") == "List" else None
    if isinstance(items, list):
        data, root = items, ("items",)
    if not isinstance(data, list):
        yield whole
        return
    for at, item in enumerate(data):
        yield Object(whole.document, item, (*root, at), lines=whole.lines)


def _decoded(text: str | bytes, file: str) -> str:
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError:
            read(text, file)  # says in words what is wrong, and where
            raise
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    # JSON may be indented by tabs, YAML may not.
    return text.replace("\t", " ") if text.lstrip()[:1] in ("{", "[") else text


def _pieces(text: str) -> Iterator[str]:
    """The documents, each behind as many empty lines as stand before it in the file."""
    cuts = [found.start() for found in _MARKER.finditer(text)]
    starts = cuts if cuts and not _says_something(text[: cuts[0]]) else [0, *cuts]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = text[start:end]
        ended = _END.search(piece)
        yield "\n" * text.count("\n", 0, start) + (piece[: ended.start()] if ended else piece)


def _says_something(text: str) -> bool:
    lines = (line.strip() for line in text.split("\n"))
    return any(line and not line.startswith(("#", "%")) for line in lines)


def embedded(whole: Object, path: Path) -> Object:
    """A YAML text inside an object, as a ConfigMap holds them, with its places in the file."""
    node = whole.document.find((*whole.root, *path))
    assert node is not None
    assert isinstance(node.data, str)
    place = whole.at or (node.line, node.column)
    header = whole.lines[node.line - 1][node.column - 1 :] if whole.at is None else ""
    if header.startswith("|"):
        after = (line for line in whole.lines[node.line :] if line.strip())
        first = next(after, "")
        indent = " " * (len(first) - len(first.lstrip(" ")))
        body = "\n".join(indent + line if line else "" for line in node.data.split("\n"))
        inner = read("\n" * node.line + body, whole.file)
        at = None
    else:
        try:
            inner, at = read(node.data, whole.file), place
        except JobFileError as error:
            raise JobFileError(
                [Problem(p.file, *place, p.path, p.text, p.suggestion) for p in error.problems]
            ) from None
    if inner.problems:
        raise JobFileError(inner.problems)
    return Object(inner, inner.data, at=at)
