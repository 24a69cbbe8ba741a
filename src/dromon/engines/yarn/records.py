"""What a job's record on HDFS tells after the fact: its timeline, the numbers it reported."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import Any

from dromon.engines.yarn.am.journal import parse
from dromon.engines.yarn.staging import Staging
from dromon.hadoop.hdfsfaults import NotThere
from dromon.observe import metrics as reported


def timeline(staging: Staging, id: str, submitted: float) -> list[dict[str, Any]]:
    """Every event the gang heard, over all attempts of its master."""
    found: list[dict[str, Any]] = [{"time": submitted, "event": "Submitted"}]
    record = staging.record(id)
    try:
        found_there = (name for name, _ in staging.hdfs.list(record))
        journals = sorted((n for n in found_there if n.startswith("journal-")), key=_attempt_of)
    except NotThere:
        return found
    for journal in journals:
        for name, _ in sorted(staging.hdfs.list(f"{record}/{journal}"), key=lambda each: each[0]):
            for entry in parse(staging.hdfs.read(f"{record}/{journal}/{name}")):
                if "event" in entry:
                    detail = dict(entry["event"])
                    kind = detail.pop("kind")
                    found.append({"time": entry["time"], "event": kind, "detail": detail})
    return found


def _attempt_of(journal: str) -> int:
    return int(journal.removeprefix("journal-").removesuffix(".closed"))


def metrics(staging: Staging, id: str, runs: Iterable[tuple[str, int, Any]]) -> dict[str, Any]:
    """As `observe.metrics` reads them, of the runs that brought theirs home."""
    with tempfile.TemporaryDirectory(prefix="dromon-metrics-") as root:
        for member, run, _ in runs:
            data = staging.read_file(id, f"{member}.{run}/metrics.jsonl")
            if data is not None:
                folder = os.path.join(root, f"{member}.{run}")
                os.makedirs(folder)
                with open(os.path.join(folder, "metrics.jsonl"), "wb") as file:
                    file.write(data)
        return reported.read(root)
