"""Figures of a job: reported, or printed as JSON lines."""

import json
import os
from pathlib import Path

import pytest

from dromon.agent.logfile import LogFile
from dromon.agent.record import Record
from dromon.observe import metrics


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(str(tmp_path / "record"))


def reported(record: Record, member: str, run: int, *points: object) -> None:
    os.makedirs(record.run(member, run), exist_ok=True)
    text = "".join((p if isinstance(p, str) else json.dumps(p)) + "\n" for p in points)
    Path(record.run(member, run), "metrics.jsonl").write_text(text)


def printed(record: Record, member: str, run: int, text: str, stream: int = 0) -> None:
    os.makedirs(record.run(member, run), exist_ok=True)
    log = LogFile(record.log(member, run))
    log.append([(1.0, stream, text.encode())])
    log.close()


def test_a_series_has_its_last_least_and_greatest(record):
    reported(record, "worker-0", 1, {"time": 1, "rank": 0, "loss": 3.0}, {"loss": 1.0, "rank": 0},
             {"loss": 2.0, "rank": 0, "step": 7})  # fmt: skip
    assert metrics.read(record.root) == {
        "loss": {"last": 2.0, "min": 1.0, "max": 3.0, "count": 3, "rank": 0},
        "step": {"last": 7, "min": 7, "max": 7, "count": 1, "rank": 0},
    }


def test_json_objects_among_other_lines_count_when_nothing_is_reported(record):
    text = 'epoch 1\n{"loss": 0.5, "note": "text", "ok": true}\n{"broken": \n[1]\n{"loss": 0.25}'
    printed(record, "worker-0", 1, text)
    found = metrics.read(record.root)
    assert set(found) == {"loss"}
    assert (found["loss"]["last"], found["loss"]["count"]) == (0.25, 2)  # the last has no newline


def test_what_is_reported_wins_over_what_is_printed(record):
    reported(record, "worker-0", 1, {"loss": 1.0})
    printed(record, "worker-0", 1, '{"loss": 9.0}\n')
    assert metrics.read(record.root)["loss"]["last"] == 1.0


def test_errors_printed_as_json_are_no_figures(record):
    printed(record, "worker-0", 1, '{"loss": 9.0}\n', stream=1)
    assert metrics.read(record.root) == {}


def test_all_members_and_runs_count_the_later_run_last(record):
    reported(record, "worker-0", 1, {"loss": 4.0})
    reported(record, "worker-0", 2, {"loss": 2.0})
    reported(record, "worker-0", 10, {"loss": 1.0})
    assert metrics.read(record.root)["loss"] == {
        "last": 1.0, "min": 1.0, "max": 4.0, "count": 3, "rank": None
    }  # fmt: skip


def test_a_loss_that_became_nan_is_shown_and_stays_valid_json(record):
    reported(record, "worker-0", 1, {"loss": 1.0}, {"loss": float("nan")})
    found = metrics.read(record.root)["loss"]
    assert (found["last"], found["min"], found["max"], found["count"]) == ("nan", 1.0, 1.0, 2)
    json.dumps(found, allow_nan=False)


def test_numbers_too_large_for_a_figure_and_torn_lines_are_passed_over(record):
    reported(record, "worker-0", 1, {"id": 10**400, "loss": 1}, '{"loss": 2', "[]", '"x"')
    assert metrics.read(record.root) == {
        "loss": {"last": 1, "min": 1, "max": 1, "count": 1, "rank": None}
    }


def test_a_job_that_never_started_has_none(record):
    assert metrics.read(record.root) == {}
