"""Trace files: which format it is, told by its columns, and its rows as jobs. CSV, also gzipped.

What is wrong with a file is said with its lines, several at once. Nothing is guessed: a format is
known by columns that no other has.
"""

import csv
import gzip
import io
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from dromon.errors import UsageError
from dromon.sim.trace import FOREVER, Trace, TraceJob
from dromon.units import parse_duration, parse_size

Row = Mapping[str, str]
LONGEST = 1e12  # seconds
SHOWN = 5  # problems named before the rest is only counted
YES, NO = frozenset({"true", "yes", "1"}), frozenset({"false", "no", "0"})


class TraceError(UsageError):
    """The trace cannot be read."""

    hint = "`dromon simulate --help` lists the formats and their columns."


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    columns: frozenset[str]  # all of these, and it is this format
    job: Callable[[Row, int], TraceJob]  # a row and its number; ValueError says what is wrong


def read_trace(path: str) -> Trace:
    """The jobs of a file, from time 0 on."""
    jobs: list[TraceJob] = []
    problems: list[str] = []
    with open_text(path) as file:
        form, rows = recognise(path, file)
        for line, row in rows:
            try:
                jobs.append(sane(form.job(row, len(jobs))))
            except (ValueError, TypeError, OverflowError) as error:
                problems.append(f"{path}:{line}: {error}")
    if problems:
        more = f"\n… and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise TraceError("\n".join(problems[:SHOWN]) + more)
    if not jobs:
        raise TraceError(f"{path}: there is no job in it")
    if len({job.id for job in jobs}) < len(jobs):
        twice = Counter(job.id for job in jobs).most_common(1)[0][0]
        raise TraceError(f"{path}: several jobs have the id {twice}", hint="Ids tell jobs apart.")
    begin = min(job.submit for job in jobs)
    if begin:
        jobs = [replace(job, submit=job.submit - begin) for job in jobs]
    jobs.sort(key=lambda job: job.submit)  # stable: ties stay in the file's order
    return Trace(jobs, path.rpartition("/")[2], form.name, begin)


def sane(job: TraceJob) -> TraceJob:
    """ValueError: nothing lasts or waits for thirty thousand years."""
    for what, value in (("submit", job.submit), ("duration", job.duration)):
        if LONGEST < value < FOREVER:
            raise ValueError(f"{what}: {value:g} seconds are beyond any calendar")
    return job


class open_text:  # noqa: N801 (used like open)
    """A text file, unpacked when it is gzipped; errors of reading say which file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> Iterable[str]:
        try:
            self._raw = open(self._path, "rb")
        except OSError as error:
            raise TraceError(f"{self._path}: {error.strerror}", hint="") from None
        packed = self._raw.peek(2)[:2] == b"\x1f\x8b"
        file = gzip.GzipFile(fileobj=self._raw) if packed else self._raw
        return io.TextIOWrapper(file, encoding="utf-8-sig", newline="")

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._raw.close()
        if isinstance(error, (UnicodeDecodeError, csv.Error)):
            raise TraceError(f"{self._path}: it is not a CSV file") from None
        if isinstance(error, (EOFError, zlib.error, OSError)):
            raise TraceError(f"{self._path}: {error}", hint="") from None


def recognise(path: str, file: Iterable[str]) -> tuple[Format, Iterator[tuple[int, Row]]]:
    reader = csv.DictReader(file)
    columns = [column.strip() for column in reader.fieldnames or ()]
    reader.fieldnames = columns
    for form in FORMATS:
        if form.columns <= set(columns):
            return form, ((reader.line_num, row) for row in reader)
    if not columns:
        raise TraceError(f"{path}: it is empty")
    near = min(FORMATS, key=lambda form: len(form.columns - set(columns)))
    missing = ", ".join(sorted(near.columns - set(columns)))
    raise TraceError(
        f"{path}: no known format has the columns {', '.join(columns[:12])}; "
        f"the nearest is {near.name}, which needs {missing} too"
    )


# ---- values -----------------------------------------------------------------------------------


def number(row: Row, column: str, default: float | None = None, *, least: float = 0.0) -> float:
    text = (row.get(column) or "").strip()
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{column}: {text!r} is not a number") from None
    if not math.isfinite(value) or value < least:
        raise ValueError(f"{column}: {text} is not a number of at least {least:g}")
    return value


def whole(row: Row, column: str, default: int | None = None, *, least: int = 0) -> int:
    value = number(row, column, default, least=least)
    if value != int(value):
        raise ValueError(f"{column}: {value:g} is not a whole number")
    return int(value)


def seconds(row: Row, column: str) -> float | None:
    text = (row.get(column) or "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0  # then it must be words
    try:
        return value if 0 <= value < math.inf else parse_duration(text)
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from None


def moment(row: Row, column: str) -> float:
    """Seconds, or a date and time (UTC when it names no zone)."""
    text = (row.get(column) or "").strip()
    try:
        return float(text)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{column}: {text!r} is neither seconds nor a date and time") from None
    return (when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp()  # noqa: UP017


def size(row: Row, column: str) -> int | None:
    text = (row.get(column) or "").strip()
    try:
        return parse_size(text) if text else None
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from None


def flag(row: Row, column: str, default: bool) -> bool:
    text = (row.get(column) or "").strip().lower()
    if text and text not in YES | NO:
        raise ValueError(f"{column}: {text!r} is neither true nor false")
    return text in YES if text else default


def word(row: Row, column: str, default: str = "") -> str:
    return (row.get(column) or "").strip() or default


# ---- formats ----------------------------------------------------------------------------------


def own_job(row: Row, place: int) -> TraceJob:
    duration = seconds(row, "duration")
    if duration is None:
        raise ValueError("duration: it is missing")
    gpus = number(row, "gpus", 0.0)
    if gpus > 1 and gpus != int(gpus):
        raise ValueError(f"gpus: {gpus:g}; above 1 only whole ones are given")
    return TraceJob(
        id=word(row, "id", str(place + 1)),
        submit=moment(row, "submit"),
        duration=duration,
        gpus=gpus,
        members=whole(row, "members", 0),
        cpus=number(row, "cpus", 0.0),
        memory=size(row, "memory"),
        kinds=kinds_of(word(row, "kind")),
        label=word(row, "label") or None,
        user=word(row, "user"),
        queue=word(row, "queue", "default"),
        priority=int(number(row, "priority", 0.0, least=-1e9)),
        preemptible=flag(row, "preemptible", True),
        max_duration=seconds(row, "max_duration"),
        stop_grace=seconds(row, "stop_grace") or 0.0,
        model=word(row, "model"),
    )


def philly_job(row: Row, place: int) -> TraceJob:
    return TraceJob(
        id=str(place + 1),
        submit=moment(row, "timestamp"),
        duration=number(row, "duration"),
        gpus=whole(row, "num_gpus"),
        user=word(row, "user"),
        queue=word(row, "cluster", "default"),
    )


def openb_job(row: Row, place: int) -> TraceJob:
    count, part = whole(row, "num_gpu"), whole(row, "gpu_milli")
    begin = number(row, "creation_time")
    end = number(row, "deletion_time", FOREVER)
    return TraceJob(
        id=word(row, "name", str(place + 1)),
        submit=begin,
        duration=max(0.0, end - begin),
        gpus=part / 1000 if count == 1 else float(count),
        cpus=number(row, "cpu_milli") / 1000,
        memory=whole(row, "memory_mib") << 20,
        kinds=kinds_of(word(row, "gpu_spec")),
        queue=word(row, "qos", "default"),
    )


def muri_job(row: Row, place: int) -> TraceJob:
    """The work is what its iterations take; the duration column is not that."""
    return TraceJob(
        id=word(row, "job_id", str(place + 1)),
        submit=number(row, "submit_time") / 1000,
        duration=number(row, "iterations") * number(row, "iteration_time") / 1000,
        gpus=whole(row, "num_gpu"),
        model=word(row, "model_name"),
    )


def kinds_of(text: str) -> tuple[str, ...]:
    return tuple(kind for kind in text.split("|") if kind)


FORMATS = (
    Format(
        "muri",
        frozenset({"job_id", "num_gpu", "submit_time", "iterations", "iteration_time"}),
        muri_job,
    ),
    Format(
        "openb",
        frozenset({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time"}),
        openb_job,
    ),
    Format("philly", frozenset({"timestamp", "duration", "num_gpus", "cluster"}), philly_job),
    Format("dromon", frozenset({"submit", "duration"}), own_job),
)
