"""The packages of an environment, as they go into an archive: modules, their data, their scripts.

Paths that lead out of the environment (editable installs, lines of .pth files) stay behind and are
named: what they lead to is not on a node.
"""

import csv
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dromon.errors import PackagingError
from dromon.packaging.anatomy import Interpreter
from dromon.packaging.pieces import Piece, of_data, of_file
from dromon.packaging.runtime import files

# `'''exec'` is the shell's exec and Python's string: the line names the Python beside the script.
RELATIVE = b"#!/bin/sh\n'''exec' \"${0%/*}/python\" \"$0\" \"$@\"\n' '''\n"
SHELL_FORM = re.compile(rb"#!/bin/sh\n'''exec' .*\n' '''\n")
EDITABLE = re.compile(r"^__editable__[._](.+?)(-\d.*)?\.pth$|^_?_editable_impl_(.+)\.pth$")
NOT_SHIPPED = re.compile(r"\.(pyc|pyo)$|^_virtualenv\.(py|pth)$")


@dataclass(frozen=True, slots=True)
class Installed:
    pieces: tuple[Piece, ...]
    left_out: tuple[str, ...]  # sentences


def sites(of: Interpreter) -> list[str]:
    """Where its packages are, each place once, in the order they are looked through."""
    found: dict[str, str] = {}
    for path in of.sites:
        if os.path.isdir(path):
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def listing(of: Interpreter) -> str:
    """A digest of names, sizes and times: another one when a package changed. Opens no file."""
    facts: list[str] = []
    try:
        for site in sites(of):
            _list(site, facts)
    except OSError as error:
        raise PackagingError(f"{error.filename} cannot be read: {error.strerror}.") from error
    return hashlib.sha256("\n".join(facts).encode(errors="surrogateescape")).hexdigest()


def _list(directory: str, facts: list[str]) -> None:
    # 20,000 files in the time it takes to blink: no sorting, no objects, nothing twice.
    facts.append(directory)
    inner = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    inner.append(entry.path)
            else:
                found = entry.stat(follow_symlinks=False)
                facts.append(f"{entry.name} {found.st_size} {found.st_mtime_ns}")
    for path in inner:
        _list(path, facts)


def installed(of: Interpreter) -> Installed:
    pieces: dict[str, Piece] = {}
    notes: list[str] = []
    taken: set[str] = set()
    for site in sites(of):
        names = _not_shadowed(site, taken)
        for piece in _site(site, names, of.site, notes):
            pieces.setdefault(piece.name, piece)
        for piece in _beyond(site, names, of):
            pieces.setdefault(piece.name, piece)
    return Installed(tuple(pieces.values()), tuple(dict.fromkeys(notes)))


def of_directory(packages: str, site: str) -> list[Piece]:
    """Packages that were put into one directory, scripts and all, for a `site` elsewhere."""
    out = []
    for name, path, found in files(packages):
        if name.startswith("bin/"):
            out.append(placed(name, path))
        elif name != ".lock" and not NOT_SHIPPED.search(name):
            out.append(of_file(f"{site}/{name}", path, found))
    return out


def _not_shadowed(site: str, taken: set[str]) -> list[str]:
    """Top-level names that no earlier place has. Packages without `__init__` add up instead."""
    names = []
    own = set()
    for name in sorted(os.listdir(site)):
        key = re.sub(r"[-_.]+", "-", name.split("-")[0]).lower() + ".dist-info"
        key = key if name.endswith((".dist-info", ".egg-info")) else name
        spread = os.path.isdir(f"{site}/{name}") and not os.path.exists(
            f"{site}/{name}/__init__.py"
        )
        if key in taken and not (spread and key == name):
            continue
        own.add(key)
        names.append(name)
    taken |= own
    return names


def _site(site: str, names: list[str], to: str, notes: list[str]) -> Iterator[Piece]:
    for top in names:
        path = f"{site}/{top}"
        if top == "__pycache__" or NOT_SHIPPED.search(top):
            continue
        if os.path.isdir(path):
            for name, source, found in files(path):
                inside = f"{top}/{name}"
                if not NOT_SHIPPED.search(inside):
                    yield of_file(f"{to}/{inside}", source, found)
        elif top.endswith(".pth"):
            text = _pth(site, top, notes)
            if text:
                yield of_data(f"{to}/{top}", text.encode())
        elif top.startswith("__editable__") and top.endswith("_finder.py"):
            continue  # its .pth is named
        elif os.path.isfile(path):
            yield of_file(f"{to}/{top}", path, os.stat(path))


def _pth(site: str, name: str, notes: list[str]) -> str:
    with open(f"{site}/{name}", encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    editable = EDITABLE.match(name)
    package = (editable[1] or editable[3]) if editable else ""
    kept = []
    for line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith(("import ", "import\t")):
            if not editable:
                kept.append(line)
            else:
                notes.append(f"{package} is installed editable, so it is not in the archive")
            continue
        path = os.path.normpath(os.path.join(site, line.strip()))
        if os.path.commonpath([path, site]) == site:
            kept.append(os.path.relpath(path, site))
        elif os.path.exists(path):
            what = f"{package} (installed editable)" if package else f"what {name} names"
            notes.append(f"{what} is outside the environment, so it is not in the archive: {path}")
    return "".join(line + "\n" for line in kept)


def _beyond(site: str, names: list[str], of: Interpreter) -> Iterator[Piece]:
    """What packages installed outside of `site`: scripts and shared data."""
    roots = [p for p in (of.prefix, of.user_base) if p]
    for name in names:
        record = f"{site}/{name}/RECORD"
        if not name.endswith(".dist-info") or not os.path.isfile(record):
            continue
        with open(record, encoding="utf-8", errors="replace", newline="") as file:
            listed = [row[0] for row in csv.reader(file) if row]
        for entry in listed:
            if not entry.startswith("../") or entry.endswith(".pyc"):
                continue
            path = os.path.normpath(os.path.join(site, entry))
            root = next((r for r in roots if path.startswith(r + "/")), None)
            if root is not None and os.path.isfile(path):
                yield placed(os.path.relpath(path, root), path)


def placed(inside: str, path: str) -> Piece:
    """A file of an environment's prefix; a script gets a relative first line."""
    directory, name = os.path.split(inside)
    if os.path.basename(directory) != "bin":
        return of_file(inside, path, os.stat(path))
    with open(path, "rb") as file:
        if file.read(2) != b"#!":
            return of_file(f"bin/{name}", path, os.stat(path))
        file.seek(0)
        return of_data(f"bin/{name}", relative(file.read()), executable=True)


def relative(script: bytes) -> bytes:
    shell = SHELL_FORM.match(script)
    if shell:
        return RELATIVE + script[shell.end() :]
    first, _, rest = script.partition(b"\n")
    return RELATIVE + rest if b"python" in first else script
