"""Numbers a job reported: by `context().report`, or printed as JSON objects, one a line."""

import json
import os
from collections.abc import Iterator
from typing import Any

from dromon.agent.logfile import LogReader
from dromon.agent.record import Record

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
            series = found.setdefault(
                name, {"last": value, "min": value, "max": value, "count": 0, "rank": None}
            )
            series["last"] = value
            series["min"] = min(series["min"], value)
            series["max"] = max(series["max"], value)
            series["count"] += 1
            series["rank"] = point.get("rank")
    return found


def points(root: str) -> Iterator[dict[str, Any]]:
    """Every report, member by member, run by run."""
    members = Record(root).path("members")
    for member in sorted(_list(members)):
        for run in sorted(_list(os.path.join(members, member)), key=int):
            folder = os.path.join(members, member, run)
            reported = list(_reported(os.path.join(folder, "metrics.jsonl")))
            yield from reported or _printed(os.path.join(folder, "log"))


def _list(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []


def _reported(path: str) -> Iterator[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            for line in file:
                yield from _object(line)
    except FileNotFoundError:
        return


def _printed(path: str) -> Iterator[dict[str, Any]]:
    reader = LogReader(path)
    left = LINES
    while left > 0 and (lines := reader.read_new()):
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
