"""Words for people: everything on stderr, colours, one passing line of progress.

Written straight to the file descriptor, so that a signal handler may speak in the middle of
anything. No tables here, and nothing about jobs.
"""

from __future__ import annotations

import os
from errno import EIO

COLOURS = {
    "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34",
    "magenta": "35", "cyan": "36",
}  # fmt: skip


def is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def wants_colour(fd: int) -> bool:
    return is_terminal(fd) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width_of(fd: int) -> int | None:
    """The terminal's columns, or None when it is none: then nothing needs to be cut."""
    if not is_terminal(fd):
        return None
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        return 80


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError as error:
        if error.errno == EIO:  # a terminal that was closed
            raise BrokenPipeError(EIO, "the terminal has gone") from None
        raise


def encode(text: str) -> bytes:
    """The bytes a program printed, exactly, even where they were no UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


class Paint:
    """Puts colours on words, or leaves them as they are."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def __call__(self, text: str, colour: str) -> str:
        if not self.enabled or not colour or not text:
            return text
        return f"\x1b[{COLOURS[colour]}m{text}\x1b[0m"


class Console:
    """What Dromon itself says. Data never comes here."""

    def __init__(self, fd: int = 2) -> None:
        self.fd = fd
        self.is_terminal = is_terminal(fd)
        self.paint = Paint(wants_colour(fd))
        self._passing = False

    def line(self, text: str) -> None:
        self._write(self._clearing() + text + "\n")

    def say(self, text: str) -> None:
        self.line(f"dromon: {text}")

    def error(self, message: str, hint: str = "") -> None:
        self.line(self.paint("dromon:", "red") + f" {message}")
        if hint:
            self.line(self.paint("hint:", "cyan") + f" {hint}")

    def passing(self, text: str) -> None:
        """A line the next one replaces. Only a terminal sees it."""
        if self.is_terminal:
            width = (width_of(self.fd) or 80) - 1
            text = text if len(text) <= width else text[: width - 1] + "…"
            self._write(self._clearing() + self.paint(text, "dim"))
            self._passing = True

    def clear(self) -> None:
        self._write(self._clearing())

    def _clearing(self) -> str:
        if not self._passing:
            return ""
        self._passing = False
        return "\r\x1b[K"

    def _write(self, text: str) -> None:
        if not text:
            return
        try:
            write_all(self.fd, encode(text))
        except OSError:
            pass  # nobody listens any more; what was to be done is done all the same
