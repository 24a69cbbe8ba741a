"""What `.gitignore` syntax means, as compiled regular expressions. Reads no files.

The rules are git's own (gitignore(5) and its wildmatch), down to a pattern's literal head being
compared apart from its wild tail. One deliberate difference: `?` is a character, not a byte.
"""

import re
from functools import lru_cache
from typing import NamedTuple

CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": r"\x21-\x7e", "lower": "a-z", "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e", "space": r" \t\n\v\f\r",
    "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
NEVER = r"(?!)"
WILD = re.compile(r"[*?\[\\]")


class Pattern(NamedTuple):
    text: str  # as it was written
    regex: re.Pattern[str]
    negated: bool
    dir_only: bool
    anchored: bool  # compared with the path below the file's directory, not with the name


class Verdict(NamedTuple):
    ignored: bool
    pattern: str


class Patterns:
    """The patterns of one ignore file, for paths relative to the directory it lies in."""

    def __init__(self, text: str) -> None:
        lines = text.removeprefix("\ufeff").split("\n")
        self.patterns = [p for p in map(_parse, lines) if p is not None]
        # Most names match nothing: one look at all patterns together says so.
        self._names = _any([p.regex.pattern for p in self.patterns if not p.anchored])
        self._paths = _any([p.regex.pattern for p in self.patterns if p.anchored])

    def verdict(self, path: str, name: str, is_dir: bool) -> Verdict | None:
        """The last pattern that matches decides; None: none does."""
        if not (
            (self._names and self._names.fullmatch(name))
            or (self._paths and self._paths.fullmatch(path))
        ):
            return None
        for pattern in reversed(self.patterns):
            if pattern.dir_only and not is_dir:
                continue
            if pattern.regex.fullmatch(path if pattern.anchored else name):
                return Verdict(not pattern.negated, pattern.text)
        return None


@lru_cache(maxsize=256)
def parse(text: str) -> Patterns:
    return Patterns(text)


class Rules:
    """All ignore files that bear on one directory; a directory below extends its parent's.

    `base` is the directory of a file relative to the tree's root, with a slash at its end, or ""
    for the root itself. Files from above the root have their own prefix put before the path.
    """

    def __init__(
        self, layers: tuple[tuple[str, str, str, Patterns], ...] = (), own: int = 0
    ) -> None:
        # (label, base, prefix, patterns), weakest first; the last `own` are .dromonignore files
        self._layers = layers
        self._own = own

    def outer(self, label: str, prefix: str, text: str) -> "Rules":
        return self._with((label, "", prefix, parse(text)), own=False)

    def below(self, base: str, label: str, text: str, *, own: bool) -> "Rules":
        return self._with((label, base, "", parse(text)), own=own)

    def _with(self, layer: tuple[str, str, str, Patterns], *, own: bool) -> "Rules":
        if own:
            return Rules((*self._layers, layer), self._own + 1)
        cut = len(self._layers) - self._own
        return Rules((*self._layers[:cut], layer, *self._layers[cut:]), self._own)

    def why_ignored(self, path: str, name: str, is_dir: bool) -> str | None:
        """ "FILE: PATTERN" when this entry is to be left out."""
        for label, base, prefix, patterns in reversed(self._layers):
            found = patterns.verdict(prefix + path[len(base) :], name, is_dir)
            if found is not None:
                return f"{label}: {found.pattern}" if found.ignored else None
        return None


def _any(regexes: list[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{r})" for r in regexes), re.DOTALL) if regexes else None


def _parse(line: str) -> Pattern | None:
    text = _trimmed(line.removesuffix("\r"))
    if not text or text.startswith("#"):
        return None
    body = text
    negated = body.startswith("!")
    if negated:
        body = body[1:]
    dir_only = body.endswith("/")
    if dir_only:
        body = body[:-1]
    if not body:
        return None
    anchored = "/" in body
    if anchored:
        body = body.removeprefix("/")
        wild = WILD.search(body)
        cut = wild.start() if wild else len(body)
        regex = re.escape(body[:cut]) + (_translate(body[cut:], paths=True) if wild else "")
    else:
        regex = _translate(body, paths=False)
    return Pattern(text, re.compile(regex, re.DOTALL), negated, dir_only, anchored)


def _trimmed(line: str) -> str:
    """Without the spaces at its end, unless a backslash guards them."""
    keep, i = 0, 0
    while i < len(line):
        if line[i] == "\\":
            if i + 1 == len(line):
                return line
            i += 2
            keep = i
        else:
            i += 1
            if line[i - 1] != " ":
                keep = i
    return line[:keep]


def _translate(glob: str, *, paths: bool) -> str:
    """A regular expression for a wild pattern. With `paths`, a slash is matched by `**` alone."""
    out: list[str] = []
    star, one = ("[^/]*", "[^/]") if paths else (".*", ".")
    i, n = 0, len(glob)
    while i < n:
        c = glob[i]
        if c == "*":
            start = i
            while i < n and glob[i] == "*":
                i += 1
            whole = start == 0 or glob[start - 1] == "/"  # stars that fill a path component
            if not paths or i - start == 1 or not whole:
                out.append(star)
            elif i == n:
                out.append(".*")
            elif glob[i] == "/":
                out.append("(?:.*/)?")
                i += 1
            elif glob.startswith("\\/", i):
                out.append(".*")
            else:
                out.append(star)
        elif c == "?":
            out.append(one)
            i += 1
        elif c == "[":
            found = _bracket(glob, i)
            if found is None:
                return NEVER  # git never matches a class left open
            regex, i = found
            out.append(f"(?!/){regex}" if paths else regex)
        elif c == "\\":
            if i + 1 == n:
                return NEVER
            out.append(re.escape(glob[i + 1]))
            i += 2
        else:
            out.append(re.escape(c))
            i += 1
    return "".join(out)


def _bracket(glob: str, i: int) -> tuple[str, int] | None:
    """The class that opens at `i`, and where it ends."""
    n = len(glob)
    i += 1
    negated = i < n and glob[i] in "!^"
    if negated:
        i += 1
    parts: list[str] = []
    previous = ""  # what a range may start from
    first = True
    while True:
        if i >= n:
            return None
        c = glob[i]
        if c == "]" and not first:
            break
        first = False
        if c == "-" and previous and i + 1 < n and glob[i + 1] != "]":
            i += 1
            if glob[i] == "\\":
                i += 1
                if i >= n:
                    return None
            if previous <= glob[i]:
                parts.append(f"{_member(previous)}-{_member(glob[i])}")
            previous = ""
        elif c == "[" and glob.startswith("[:", i):
            end = glob.find("]", i + 2)
            if end < 0:
                return None
            name = glob[i + 2 : end - 1]
            if glob[end - 1] == ":" and end - 1 >= i + 2:
                if name not in CLASSES:
                    return None
                parts.append(CLASSES[name])
                previous, i = "", end
            else:
                parts.append(_member("["))
                previous = "["
        else:
            if c == "\\":
                i += 1
                if i >= n:
                    return None
                c = glob[i]
            parts.append(_member(c))
            previous = c
        i += 1
    inside = "".join(parts)
    if not inside:
        return ("." if negated else NEVER), i + 1
    return f"[{'^' if negated else ''}{inside}]", i + 1


def _member(c: str) -> str:
    return f"\\{c}" if c in "\\]^-[&~|" else c
