"""Lines of members to the file descriptors they belong to. When to stop is not decided here."""

from __future__ import annotations

from dromon.cli.console import Paint, encode, wants_colour, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dromon.engines.base import LogLine
    from dromon.observe.logs import Text

RANK_COLOURS = ("cyan", "yellow", "green", "magenta", "blue")
CHUNK = 64 * 1024


class LinePrinter:
    """Prints a member's lines: raw when there is one member, else under the member's name.

    `members` is asked once, at the first line, because a job that waits has no members yet.
    `split`: the member's stderr goes to ours; else everything is data and goes to stdout.
    """

    def __init__(
        self,
        members: Callable[[], Sequence[str]],
        *,
        split: bool,
        timestamps: bool = False,
        live: bool = True,
    ) -> None:
        self._members = members
        self._split = split
        self._timestamps = timestamps
        self._live = live
        self._paints = {1: Paint(wants_colour(1)), 2: Paint(wants_colour(2))}
        self._prefixes: dict[tuple[int, str], str] | None = None
        self._befores: dict[tuple[int, str], bytes] = {}
        self._width = 0
        self._fd = 1
        self._pending: list[bytes] = []
        self._size = 0

    def print(self, line: LogLine) -> None:
        fd = 2 if self._split and line.stream == "err" else 1
        if self._prefixes is None:
            self._learn()
        text = line.text
        if self._width:
            text = self._prefix(fd, line) + text
        if self._timestamps:
            text = f"{stamp(line.time)} {text}"
        self._put(fd, encode(text + "\n"))

    def print_text(self, text: Text) -> None:
        """Many lines at once, which share their member, stream and time."""
        fd = 2 if self._split and text.stream == "err" else 1
        if self._prefixes is None:
            self._learn()
        data = text.data
        if self._width or self._timestamps:
            before = self._before(fd, text)
            if data.find(b"\n") < len(data) - 1:
                data = data[:-1].replace(b"\n", b"\n" + before) + b"\n"
            data = before + data
        self._put(fd, data)

    def _before(self, fd: int, text: Text) -> bytes:
        before = self._befores.get((fd, text.member))
        if before is None:
            before = encode(self._prefix(fd, text)) if self._width else b""
            self._befores[fd, text.member] = before
        return encode(stamp(text.time)) + b" " + before if self._timestamps else before

    def flush(self) -> None:
        if self._pending:
            data, self._pending, self._size = b"".join(self._pending), [], 0
            write_all(self._fd, data)

    def _put(self, fd: int, data: bytes) -> None:
        if self._live:
            write_all(fd, data)
            return
        if fd != self._fd:
            self.flush()
            self._fd = fd
        self._pending.append(data)
        self._size += len(data)
        if self._size > CHUNK:
            self.flush()

    def _learn(self) -> None:
        names = sorted(set(self._members()))
        self._prefixes = {}
        self._width = max(map(len, names)) if len(names) > 1 else 0

    def _prefix(self, fd: int, line: LogLine | Text) -> str:
        assert self._prefixes is not None
        key = (fd, line.member)
        if key not in self._prefixes:
            index = line.rank if line.rank is not None else len(self._prefixes)
            colour = RANK_COLOURS[index % len(RANK_COLOURS)]
            self._width = max(self._width, len(line.member))
            name = line.member.ljust(self._width) + " |"
            self._prefixes[key] = self._paints[fd](name, colour) + " "
        return self._prefixes[key]


def stamp(time: float) -> str:
    """Local time to the millisecond, sortable: 2026-03-01T12:00:00.123."""
    from time import localtime, strftime

    return strftime("%Y-%m-%dT%H:%M:%S", localtime(time)) + f".{int(time % 1 * 1000):03d}"
