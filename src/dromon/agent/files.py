"""Small files in as few system calls as there can be; `open` makes eight before it reads.

An agent's whole cost is a millisecond, and reading four small files would be a tenth of it.
"""

import os

SMALL = 1 << 16


def read_small(path: str) -> bytes:
    """All of it."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = more = os.read(fd, SMALL)
        while len(more) == SMALL:
            more = os.read(fd, SMALL)
            data += more
        return data
    finally:
        os.close(fd)


def write_small(path: str, data: bytes) -> None:
    """A file that only its owner may read."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        written = os.write(fd, data)
        while written < len(data):
            written += os.write(fd, data[written:])
    finally:
        os.close(fd)
