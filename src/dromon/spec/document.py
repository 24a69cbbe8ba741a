"""YAML 1.2 text -> plain data, and the place of every node. Knows nothing of job files.

Built from the parser's events with a stack of its own, so neither deep nesting nor aliases of
aliases can make it recurse or grow without bound.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dromon.errors import JobFileError, Problem
from dromon.spec.path import Key, Path, clipped, shown

if TYPE_CHECKING:
    from ruamel.yaml.error import MarkedYAMLError

SIZE_LIMIT = 1024 * 1024  # bytes of text
WEIGHT_LIMIT = 50_000  # nodes once aliases are written out, long texts counting for several
DEPTH_LIMIT = 64
TEXT_WEIGHT = 100  # characters that weigh as much as one node

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INT = re.compile(r"[-+]?[0-9]{1,1000}|0o[0-7]{1,1000}|0x[0-9a-fA-F]{1,1000}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_TAG = "tag:yaml.org,2002:"
# The parser takes time that grows with the square of a tag's length.
_LONG_TAG = re.compile(r"(?:^|(?<=[\s\[{,]))!\S{4096}")


@dataclass(slots=True)
class Node:
    """One value and where it starts. `raw` is what a plain scalar looked like in the text."""

    line: int
    column: int
    data: Any
    raw: str | None = None
    weight: int = 1
    depth: int = 0  # of what it holds, not of where it stands
    children: dict[Key, tuple[tuple[int, int], "Node"]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """What the text says, and the problems that did not stop the reading."""

    file: str
    root: Node
    problems: tuple[Problem, ...]

    @property
    def data(self) -> Any:
        return self.root.data

    def find(self, path: Path) -> Node | None:
        node: Node | None = self.root
        for key in path:
            if node is None or key not in node.children:
                return None
            node = node.children[key][1]
        return node

    def position(self, path: Path, *, at_key: bool = False) -> tuple[int, int]:
        """Of the value, or of its key; of the nearest key above it when it is not in the text."""
        node, place, found = self.root, (self.root.line, self.root.column), True
        for key in path:
            if key not in node.children:
                found = False
                break
            place, node = node.children[key]
        return place if at_key or not found else (node.line, node.column)


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not been read yet."""

    node: Node
    anchor: str | None
    key: str | None = None
    key_place: tuple[int, int] = (0, 0)
    keeps: bool = True  # false for the value of a key that was there already
    merges: list[Node] = field(default_factory=list)

    @property
    def wants_key(self) -> bool:
        return isinstance(self.node.data, dict) and self.key is None


def read(text: str | bytes, file: str) -> Document:
    """Raises JobFileError when the text is no YAML document at all."""
    decoded = _decoded(text, file)
    long_tag = _LONG_TAG.search(decoded)
    if long_tag:
        place = _place(decoded[: long_tag.start()])
        raise _refuse(file, *place, "a tag of more than 4,096 characters", "leave it out")
    return _Builder(file).build(decoded)


def _refuse(file: str, line: int, column: int, text: str, suggestion: str = "") -> JobFileError:
    return JobFileError([Problem(file, line, column, "", text, suggestion)])


def _decoded(text: str | bytes, file: str) -> str:
    if len(text) > SIZE_LIMIT:
        hint = "give big data to the job as a volume"
        raise _refuse(file, 0, 0, "is too big: a job file has at most 1 MiB", hint)
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _refuse(file, 1, 1, "is UTF-16 text", "save it as UTF-8")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\0" in text[:8192]:
            raise _refuse(file, 0, 0, "is binary, not a job file") from None
        line, column = _place(text[: error.start].decode("utf-8", "replace"))
        raise _refuse(
            file, line, column, f"byte 0x{text[error.start]:02x} is not UTF-8", "save it as UTF-8"
        ) from None
    if "\0" in decoded:
        raise _refuse(file, 0, 0, "is binary, not a job file")
    return decoded


def _place(before: str) -> tuple[int, int]:
    """Line and column of the character that follows this text."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")


class _Builder:
    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.anchors: dict[str, Node] = {}
        self.open: list[_Open] = []
        self.root: Node | None = None
        self.weight = 0

    def build(self, text: str) -> Document:
        documents = 0
        for event in self._events(text):
            kind = type(event).__name__
            if kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    raise self._error(event, "a second document starts here", "one job per file")
            elif kind == "ScalarEvent":
                self._scalar(event)
            elif kind == "MappingStartEvent":
                self._start(event, {})
            elif kind == "SequenceStartEvent":
                self._start(event, [])
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                self._end(event)
            elif kind == "AliasEvent":
                self._alias(event)
        root = self.root or Node(1, 1, None)
        return Document(self.file, root, tuple(self.problems))

    def _events(self, text: str) -> Iterator[Any]:
        # Imported here: jobs that come as data never need the parser, and it is slow to load.
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
        from ruamel.yaml.reader import ReaderError

        try:
            yield from YAML(typ="safe", pure=True).parse(text)
        except JobFileError:
            raise
        except ReaderError as error:
            line, column = _place(text[: error.position])
            raise _refuse(
                self.file,
                line,
                column,
                f"character U+{ord(text[error.position]):04X} is not allowed here",
            ) from None
        except MarkedYAMLError as error:
            raise self._syntax(error, text) from None
        except (YAMLError, ValueError, LookupError, AssertionError, TypeError) as error:
            # The parser answers some malformed texts with its own internal errors.
            said = str(error).strip().splitlines()
            reason = said[0] if said else "cannot be read"
            raise _refuse(self.file, 0, 0, f"is not YAML: {reason}") from None

    def _syntax(self, error: "MarkedYAMLError", text: str) -> JobFileError:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        said = str(error.problem or error.context or "cannot be read")
        lines = text.split("\n")
        shown = lines[line - 1] if 0 < line <= len(lines) else ""
        if "'\\t'" in said or shown[: column - 1].strip(" ") == "\t":
            return _refuse(self.file, line, column, "a tab indents this line", "use spaces")
        if said.startswith("mapping values are not allowed"):
            return _refuse(
                self.file, line, column, "a second `: ` on this line",
                "quote text that holds a colon and a space, and check the indentation",
            )  # fmt: skip
        if "cannot start any token" in said:
            return _refuse(
                self.file, line, column, f"{shown[column - 1 : column]!r} cannot start a value",
                "quote it",
            )  # fmt: skip
        if said == "found unexpected end of stream" and error.context_mark:
            start = error.context_mark
            return _refuse(
                self.file, start.line + 1, start.column + 1, "this quote is never closed"
            )
        context = f" {error.context}" if error.context and error.context != said else ""
        return _refuse(self.file, line, column, f"is not YAML: {said}{context}")

    def _error(self, event: Any, text: str, suggestion: str = "") -> JobFileError:
        line, column = _start_of(event)
        path = shown(self._path())
        return JobFileError(
            [*self.problems, Problem(self.file, line, column, path, text, suggestion)]
        )

    def _path(self) -> Path:
        path: list[Key] = []
        for frame in self.open:
            if isinstance(frame.node.data, list):
                path.append(len(frame.node.data))
            elif frame.key is not None:
                path.append(frame.key)
        return tuple(path)

    def _weigh(self, event: Any, weight: int) -> None:
        self.weight += weight
        if self.weight > WEIGHT_LIMIT:
            raise self._error(
                event, f"the file holds more than {WEIGHT_LIMIT:,} values once its aliases (*name)"
                " are written out", "give big data to the job as a volume",
            )  # fmt: skip

    def _scalar(self, event: Any) -> None:
        line, column = _start_of(event)
        weight = 1 + len(event.value) // TEXT_WEIGHT
        self._weigh(event, weight)
        if self.open and self.open[-1].wants_key:
            if event.tag not in (None, f"{_TAG}str"):
                raise self._error(event, f"the tag {_short(event.tag)} means nothing here")
            if event.anchor:
                self.anchors[event.anchor] = Node(line, column, event.value, weight=weight)
            self._key(event.value, (line, column))
            return
        plain = event.implicit[0]
        node = Node(line, column, event.value, event.value if plain else None, weight)
        if event.tag is not None and event.tag != "!":
            node.data = self._tagged(event)
        elif plain:
            node.data = resolved(event.value)
        self._add(node, event.anchor)

    def _tagged(self, event: Any) -> Any:
        if event.tag == f"{_TAG}str":
            return event.value
        value = resolved(event.value)
        wanted = {f"{_TAG}int": int, f"{_TAG}float": float, f"{_TAG}bool": bool}.get(event.tag)
        if event.tag == f"{_TAG}null" and value is None:
            return None
        if wanted is float and type(value) is int:
            return float(value)
        if wanted is not None and type(value) is wanted:
            return value
        raise self._error(event, f"the tag {_short(event.tag)} means nothing here", "leave it out")

    def _key(self, key: str, place: tuple[int, int]) -> None:
        frame = self.open[-1]
        frame.key, frame.key_place = key, place
        frame.keeps = key not in frame.node.children
        if not frame.keeps:
            first = frame.node.children[key][0]
            self.problems.append(
                Problem(self.file, *place, shown(self._path()),
                        f"is there twice; the first is on line {first[0]}", "keep one")
            )  # fmt: skip

    def _start(self, event: Any, data: Any) -> None:
        line, column = _start_of(event)
        if self.open and self.open[-1].wants_key:
            raise self._error(event, "a key is a single text, not a list or a mapping")
        if len(self.open) >= DEPTH_LIMIT:
            raise self._error(event, f"nested more than {DEPTH_LIMIT} deep")
        if event.tag not in (None, "!", f"{_TAG}map", f"{_TAG}seq"):
            raise self._error(
                event, f"the tag {_short(event.tag)} means nothing here", "leave it out"
            )
        self._weigh(event, 1)
        self.open.append(_Open(Node(line, column, data), event.anchor))

    def _end(self, event: Any) -> None:
        frame = self.open.pop()
        node = frame.node
        for merged in frame.merges:
            for key, (place, child) in merged.children.items():
                if key not in node.children:
                    node.children[key] = (place, child)
                    node.data[key] = child.data
        inside = [child for _, child in node.children.values()]
        node.weight = 1 + sum(child.weight for child in inside)
        node.depth = 1 + max((child.depth for child in inside), default=0)
        self._add(node, frame.anchor)

    def _alias(self, event: Any) -> None:
        target = self.anchors.get(event.anchor)
        if target is None:
            holds = any(frame.anchor == event.anchor for frame in self.open)
            text = "holds itself" if holds else "is not defined before this line"
            raise self._error(event, f"*{event.anchor} {text}")
        if len(self.open) + target.depth > DEPTH_LIMIT:
            raise self._error(event, f"nested more than {DEPTH_LIMIT} deep")
        self._weigh(event, target.weight)
        if self.open and self.open[-1].wants_key:
            if not isinstance(target.data, str):
                raise self._error(event, "a key is a single text")
            self._key(target.data, _start_of(event))
            return
        self._add(target, None)

    def _add(self, node: Node, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = node
        if not self.open:
            self.root = node
            return
        frame = self.open[-1]
        if isinstance(frame.node.data, list):
            frame.node.children[len(frame.node.data)] = ((node.line, node.column), node)
            frame.node.data.append(node.data)
            return
        key, frame.key = frame.key, None
        assert key is not None
        if key == "<<":
            self._merge(frame, node)
        elif frame.keeps:
            frame.node.children[key] = (frame.key_place, node)
            frame.node.data[key] = node.data

    def _merge(self, frame: _Open, node: Node) -> None:
        """`<<: *base` gives the keys of another mapping to those who lack them."""
        if isinstance(node.data, dict):
            frame.merges.append(node)
            return
        bases = [child for _, child in node.children.values()]
        if bases and all(isinstance(base.data, dict) for base in bases):
            frame.merges.extend(bases)
            return
        line, column = frame.key_place
        path = shown((*self._path(), "<<"))
        self.problems.append(
            Problem(self.file, line, column, path, "expected a mapping to take keys from")
        )


def resolved(text: str) -> Any:
    """What a plain scalar means: YAML 1.2's core schema, so `yes` and `017a` are texts."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    special = _SPECIAL.fullmatch(text)
    if special:
        return float("nan") if special.group(1) is None else float(special.group(1) + "inf")
    return text


def _start_of(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


def _short(tag: str) -> str:
    return clipped(tag.replace(_TAG, "!!"))
