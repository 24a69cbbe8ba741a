"""Shared libraries that packages take from the Python they were installed for, as conda's do.

What packages take from the system stays the node's affair: drivers and what belongs to them must be
of the machine they run on.
"""

import os
from collections.abc import Sequence

from dromon.packaging import elf
from dromon.packaging.anatomy import Interpreter
from dromon.packaging.pieces import Piece, of_data
from dromon.packaging.runtime import OF_LIBC, moved

OF_THE_SYSTEM = ("/", "/usr", "/usr/local")


def linked(pieces: Sequence[Piece], of: Interpreter) -> list[Piece]:
    """What `pieces` need out of the interpreter's own `lib`, and what that needs."""
    roots = [
        os.path.join(prefix, "lib")
        for prefix in dict.fromkeys((of.prefix, of.base))
        if os.path.realpath(prefix) not in OF_THE_SYSTEM
    ]
    have = {os.path.basename(p.name) for p in pieces if ".so" in p.name}
    out: list[Piece] = []
    waiting = [p.source for p in pieces if p.source and ".so" in os.path.basename(p.name)]
    while waiting:
        try:
            needed = elf.read_file(waiting.pop()).needed
        except (OSError, elf.NotElf):
            continue  # a linker's script, say
        for name in needed:
            if name in have or OF_LIBC.match(name):
                continue
            have.add(name)
            for root in roots:
                path = os.path.join(root, name)
                if os.path.isfile(path):
                    data, _ = moved(f"lib/{name}", path)
                    out.append(of_data(f"lib/{name}", data, executable=True))
                    waiting.append(path)
                    break
    return out
