"""Numbers a job reported: by `context().report`, or printed as JSON objects, one a line."""

import json
import os
from collections.abc import Iterator
from math import isfinite
from typing import Any

from dromon.agent.logfile import LogReader
from dromon.agent.record import Record, runs_among

LINES = 200_000  # of a log are looked through for JSON objects, no more


def read(root: str) -> dict[str, dict[str, Any]]:
    """name -> last, min, max, count and who said it last."""
    found: dict[str, dict[str, Any]] = {}
    for point in points(root):
        for name, value in point.items():
            if name in ("time", "rank") or isinstance(value, bool):
                continue
            if not isinstance(value, (int, float)):
                continue
            if isinstance(value, int) and value.bit_length() > 1000:
                continue  # more than any float: a key, not a figure
            series = found.setdefault(
                name, {"last": None, "min": None, "max": None, "count": 0, "rank": None}
            )
            if isfinite(value):
                series["last"] = value
                series["min"] = value if series["min"] is None else min(series["min"], value)
                series["max"] = value if series["max"] is None else max(series["max"], value)
            else:
                series["last"] = str(value)  # JSON has no nan; min and max are those of the rest
            series["count"] += 1
            series["rank"] = point.get("rank")
    return found


def points(root: str) -> Iterator[dict[str, Any]]:
    """Every report, member by member, run by run."""
    record = Record(root)
    for member, run in runs_among(os.listdir(root) if os.path.isdir(root) else ()):
        folder = record.run(member, run)
        reported = list(_reported(os.path.join(folder, "metrics.jsonl")))
        yield from reported or _printed(os.path.join(folder, "log"))


def _reported(path: str) -> Iterator[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            for line in file:
                yield from _object(line)
    except FileNotFoundError:
        return


def _printed(path: str) -> Iterator[dict[str, Any]]:
    with LogReader(path) as reader:
        left = LINES
        while left > 0 and (lines := reader.read_new() or reader.finish()):
            left -= len(lines)
            for _, stream, text in lines:
                if stream == "out":
                    yield from _object(text)


def _object(line: bytes) -> Iterator[dict[str, Any]]:
    line = line.strip()
    if line.startswith(b"{") and line.endswith(b"}"):
        try:
            found = json.loads(line)
        except ValueError:
            return
        if isinstance(found, dict):
            yield found
