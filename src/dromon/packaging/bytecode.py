"""Bytecode that is believed without a look at its source: in an archive every file is as old as
every other, and a node's cache may not be written to.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable

from dromon.packaging.pieces import Piece, of_data

UNCHECKED = (1).to_bytes(4, "little")

# Runs in the interpreter that will read it. One that does not compile has no bytecode, as ever.
COMPILE = r"""
import importlib.util, json, marshal, sys, warnings
warnings.simplefilter("ignore")
magic = importlib.util.MAGIC_NUMBER
for name, source, target in json.load(sys.stdin):
    try:
        with open(source, "rb") as file:
            text = file.read()
        code = compile(text, name, "exec", dont_inherit=True)
        data = marshal.dumps(code)
    except Exception:
        continue
    with open(target, "wb") as file:
        file.write(magic + (1).to_bytes(4, "little") + importlib.util.source_hash(text) + data)
"""


def compiled(pieces: Iterable[Piece], python: str, tag: str, magic: bytes) -> list[Piece]:
    """One more piece for each module among `pieces`: `__pycache__/name.<tag>.pyc`.

    What lies beside the source is taken where it is up to date; the rest is compiled by `python`
    (none: by nobody).
    """
    out: list[Piece] = []
    missing: list[tuple[str, str]] = []
    for piece in pieces:
        if piece.source and piece.name.endswith(".py"):
            data = _beside(piece.source, tag, magic)
            if data is None:
                missing.append((piece.name, piece.source))
            else:
                out.append(of_data(_cached(piece.name, tag), data))
    if python and missing:
        out += _compile(missing, python, tag)
    return out


def _cached(name: str, tag: str) -> str:
    directory, file = os.path.split(name)
    return os.path.join(directory, "__pycache__", f"{file[:-3]}.{tag}.pyc")


def _beside(source: str, tag: str, magic: bytes) -> bytes | None:
    try:
        with open(_cached(source, tag), "rb") as file:
            data = file.read()
        found = os.stat(source)
    except OSError:
        return None
    if data[:4] != magic:
        return None
    flags = int.from_bytes(data[4:8], "little")
    if flags == 0:
        mtime, size = (int.from_bytes(data[n : n + 4], "little") for n in (8, 12))
        if mtime != int(found.st_mtime) & 0xFFFFFFFF or size != found.st_size & 0xFFFFFFFF:
            return None
    elif flags != 1:  # 3: by the source's hash, which is to be looked at
        return None
    # The hash of the source is read by nobody; the time that stood there would differ each time.
    return magic + UNCHECKED + bytes(8) + data[16:]


def _compile(missing: list[tuple[str, str]], python: str, tag: str) -> list[Piece]:
    out = []
    with tempfile.TemporaryDirectory(prefix="dromon-") as scratch:
        work = [(n, s, f"{scratch}/{i}") for i, (n, s) in enumerate(missing)]
        workers = min(os.cpu_count() or 1, 1 + len(work) // 200)
        running = []
        for share in range(workers):
            process = subprocess.Popen(
                [python, "-I", "-S", "-c", COMPILE], stdin=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            assert process.stdin is not None
            with process.stdin as pipe:
                json.dump(work[share::workers], pipe)
            running.append(process)
        for process in running:
            process.wait()
        for name, _, target in work:
            if os.path.exists(target):
                with open(target, "rb") as file:
                    out.append(of_data(_cached(name, tag), file.read()))
    return out
