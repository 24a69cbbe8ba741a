"""The logs of a finished application, from HDFS, where YARN's NodeManagers put them.

One file for each node, in a directory of the application's own. Where that is, is a matter of the
cluster's settings and of its age: every place that YARN 3 writes to is looked at. In a container's
logs are those of our members: `<member>.<run>.log` and its index, as `agent.logfile` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from dromon.agent.logfile import RECORD, LogReader
from dromon.agent.record import runs_among
from dromon.engines.base import LogLine
from dromon.errors import EngineError
from dromon.hadoop import ifile, tfile
from dromon.hadoop.extents import DamagedLog, Entry, Extent, UnknownLogFormat
from dromon.hadoop.hdfsfaults import NoPermission, NotThere
from dromon.hadoop.site import Site
from dromon.observe.logs import Source, Text, texts

LOG, INDEX = ".log", ".log.index"
UNFINISHED, CHECKSUM, ARCHIVE = ".tmp", "-checksum", ".har"
FORMATS = ("TFile", "IFile")
BLOCK = 4 * 1024 * 1024
SMALL_BLOCK = 256 * 1024
INDEX_BLOCK = 1024 * 1024
AHEAD = 1  # blocks that are fetched while others are worked on
# Of the logs of all members together, about so much is held, with what is fetched ahead: more
# members, smaller blocks.
HELD = 16 * 1024 * 1024


class Status(Protocol):
    @property
    def length(self) -> int: ...


class Hdfs(Protocol):
    """What is asked of HDFS here. Errors are those of `hadoop.hdfsfaults`."""

    def list(self, path: str) -> Sequence[tuple[str, Any]]: ...
    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes: ...


class NoLogs(EngineError):
    """The application has no aggregated logs."""


class NodeFile(NamedTuple):
    """What one node uploaded; `size` of its bytes are good."""

    path: str
    name: str  # host_port, and the time of the upload where there are several
    size: int


class LogFile(NamedTuple):
    """One log file of one container."""

    node: str
    container: str
    file: str
    size: int
    body: Extent


class AggregatedLogs:
    """The aggregated logs of one application. Asks HDFS when something is wanted, and once."""

    def __init__(self, hdfs: Hdfs, site: Site, user: str, application_id: str) -> None:
        self._hdfs = hdfs
        self._site = site
        self._user = user
        self._id = application_id
        self._nodes: list[NodeFile] | None = None
        self._files: list[LogFile] | None = None
        self._is_complete = False
        self.problems: list[str] = []  # files that could not be read to their end, in words

    # ---- where they are -------------------------------------------------------------------------

    def directories(self) -> list[str]:
        """Every directory they may be in, most likely first."""
        site, bucket = self._site, f"{int(self._id.rpartition('_')[2]) % 10000:04d}"
        formats = [*site.words("yarn.log-aggregation.file-formats"), *FORMATS]
        common = site.get("yarn.nodemanager.remote-app-log-dir-suffix")
        new, old = [], []
        for name in formats:
            own = f"yarn.log-aggregation.{name}.remote-app-log-dir"
            root = site.get(own) or site.get("yarn.nodemanager.remote-app-log-dir")
            base = f"{_path(root).rstrip('/')}/{self._user}"
            for suffix in (site.get(f"{own}-suffix") or f"{common}-{name.lower()}", common):
                new.append(f"{base}/bucket-{suffix}/{bucket}/{self._id}")
                old.append(f"{base}/{suffix}/{self._id}")
        return list(dict.fromkeys([*new, *old]))

    def nodes(self) -> list[NodeFile]:
        """The files of the nodes. Raises `NoLogs` where there are none, with the reason."""
        if self._nodes is None:
            found, unfinished = [], 0
            for directory in self.directories():
                try:
                    listed = [(name, status.length) for name, status in self._hdfs.list(directory)]
                except NotThere:
                    continue
                except NoPermission as error:
                    raise NoLogs(
                        f"Only {self._user} may read the logs of {self._id}: {error}",
                        hint=f"Ask {self._user}, or an administrator of the cluster.",
                    ) from None
                files, pending = self._of_directory(directory, listed)
                found += files
                unfinished += pending
            self._is_complete = bool(found) and not unfinished
            self._nodes = found
        if not self._nodes:
            raise self._missing()
        return self._nodes

    @property
    def is_complete(self) -> bool:
        """No node is in the middle of its upload. Of nodes that have not begun, only the
        ResourceManager knows: its report says how far the aggregation is."""
        self.nodes()
        return self._is_complete

    def _of_directory(
        self, directory: str, listed: list[tuple[str, int]]
    ) -> tuple[list[NodeFile], int]:
        good: dict[str, int] = {}
        for name, _ in listed:
            if name.endswith(CHECKSUM):
                file, size = ifile.checksum(self._hdfs.read(f"{directory}/{name}", 0, 4096))
                good[file] = size
        found, pending = [], len(good)
        for name, size in sorted(listed):
            if name.endswith(UNFINISHED):
                pending += 1
            elif name.endswith(ARCHIVE):
                raise UnknownLogFormat(f"The logs of {self._id} were put into an archive: {name}.")
            elif not name.endswith(CHECKSUM):
                size = min(size, good.get(name, size))
                found.append(NodeFile(f"{directory}/{name}", name, size))
        return found, pending

    def _missing(self) -> NoLogs:
        name = "yarn.log-aggregation-enable"
        if name in self._site and not self._site.flag(name):
            return NoLogs(
                f"The cluster does not keep the logs of {self._id} after its end.",
                hint=f"It keeps them where {name} is true in its yarn-site.xml.",
            )
        return NoLogs(
            f"There are no logs of {self._id} on HDFS: not uploaded yet, or deleted after "
            "their retention time.",
            hint=f"Looked for in {self.directories()[0]}, and in the older places.",
        )

    # ---- what is in them ------------------------------------------------------------------------

    def files(self) -> list[LogFile]:
        """Every log file of every container; no body is read for it."""
        if self._files is None:
            self._files, self.problems = [], []
            for node in self.nodes():
                try:
                    for container, file, body in self._entries(node):
                        self._files.append(LogFile(node.name, container, file, body.size, body))
                except DamagedLog as error:  # what the other nodes uploaded is still good
                    self.problems.append(f"{node.path}: {error}")
        return self._files

    def _entries(self, node: NodeFile) -> Iterator[Entry]:
        def read_at(offset: int, length: int) -> bytes:
            return self._hdfs.read(node.path, offset, length)

        if not node.size:
            return iter(())
        if tfile.is_tfile(read_at(0, min(64, node.size))):
            return tfile.entries(read_at, node.size)
        return ifile.entries(read_at, node.size, self._id)

    def read(self, file: LogFile) -> Iterator[bytes]:
        """The bytes of one log file, a block at a time."""
        at = 0
        while block := file.body.read_at(at, BLOCK):
            at += len(block)
            yield block

    # ---- those of our members -------------------------------------------------------------------

    def runs(self) -> list[tuple[str, int]]:
        """Every (member, run) that left a log."""
        return runs_among(name.removesuffix(LOG) for name in self._latest() if name.endswith(LOG))

    def lines(
        self,
        sources: Iterable[Source],
        *,
        since: float | None = None,
        tail: int | None = None,
    ) -> Lines:
        """What these runs printed, merged by time. Runs that left no log are left out."""
        latest, wanted = self._latest(), list(sources)
        block = max(SMALL_BLOCK, min(BLOCK, HELD // max(1, 2 * len(wanted))))
        ahead = ThreadPoolExecutor(AHEAD)
        logs: list[tuple[Source, LogReader]] = []
        for source in wanted:
            log = latest.get(f"{source.member}.{source.run}{LOG}")
            index = latest.get(f"{source.member}.{source.run}{INDEX}")
            if log is not None:
                logs.append((source, LogReader(Uploaded(log, index, block, ahead))))
        return Lines(lambda plain: texts(logs, since=since, tail=tail, plain=plain))

    def _latest(self) -> dict[str, Extent]:
        """By name. Whatever was uploaded more than once is longest the last time."""
        found: dict[str, Extent] = {}
        for file in self.files():
            if file.file.endswith((LOG, INDEX)):
                known = found.get(file.file)
                if known is None or known.size <= file.size:
                    found[file.file] = file.body
        return found


def _path(root: str) -> str:
    """The directory of a URI on HDFS; another file system cannot be read here."""
    parts = urlsplit(root)
    if parts.scheme not in ("", "hdfs", "viewfs"):
        raise UnknownLogFormat(f"The cluster keeps its logs at {root}, which is not on HDFS.")
    return parts.path if parts.scheme else root


class Lines:
    """Lines one by one; or, for whoever only passes them on, as bytes, many times as fast."""

    def __init__(self, start: Callable[[bool], Iterator[Text]]) -> None:
        self._start = start
        self._lines = self._one_by_one()

    def texts(self, *, plain: bool = False) -> Iterator[Text]:
        """Instead of iterating: all lines, many at once; `plain`: nobody looks at their time nor
        at their stream, which are those of the first."""
        return self._start(plain)

    def __iter__(self) -> Iterator[LogLine]:
        return self._lines

    def __next__(self) -> LogLine:
        return next(self._lines)

    def _one_by_one(self) -> Iterator[LogLine]:
        for time, member, rank, stream, data, run in self._start(False):
            lines = data.decode("utf-8", "replace").split("\n")
            lines.pop()
            for line in lines:
                yield LogLine(time, member, rank, stream, line, run)


class Uploaded:
    """A member's log and its index as `LogReader` wants them."""

    def __init__(self, log: Extent, index: Extent | None, block: int, ahead: Executor) -> None:
        self._log = Blocks(log, block, ahead)
        self._index = Blocks(index, min(block, INDEX_BLOCK), ahead) if index is not None else None
        self._records = index.size // RECORD.size if index is not None else 0

    def is_there(self) -> bool:
        return True

    def records(self) -> int:
        return self._records

    def log(self, offset: int, length: int) -> bytes:
        return self._log.read_at(offset, length)

    def index(self, offset: int, length: int) -> bytes:
        return self._index.read_at(offset, length) if self._index is not None else b""

    def close(self) -> None:
        self._log.forget()


class Blocks:
    """An extent, read in blocks. The last one is kept, since neighbours are mostly asked for next;
    and while blocks are asked for in turn, the one after is fetched meanwhile."""

    def __init__(self, source: Extent, block: int, ahead: Executor) -> None:
        self._source = source
        self._size = block
        self._executor = ahead
        self._ahead: tuple[int, Future[bytes]] | None = None
        self.forget()

    def forget(self) -> None:
        self._number = -1
        self._data = b""

    def read_at(self, offset: int, length: int) -> bytes:
        end = min(offset + length, self._source.size)
        pieces = []
        while offset < end:
            number, inside = divmod(offset, self._size)
            if number != self._number:
                self._go_to(number)
            piece = self._data[inside : inside + end - offset]
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _go_to(self, number: int) -> None:
        in_turn = number == self._number + 1
        self.forget()
        known, self._ahead = self._ahead, None
        fetched = known[1].result() if known is not None else b""  # never two readers at once
        if known is None or known[0] != number:
            fetched = self._source.read_at(number * self._size, self._size)
        self._number, self._data = number, fetched
        start = (number + 1) * self._size
        if in_turn and start < self._source.size:
            later = self._executor.submit(self._source.read_at, start, self._size)
            self._ahead = (number + 1, later)
