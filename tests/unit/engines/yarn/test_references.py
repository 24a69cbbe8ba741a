"""Which job somebody means."""

import pytest

from dromon.engines.yarn.references import find
from dromon.engines.yarn.reports import Report
from dromon.errors import AmbiguousJob


def report(number, id):
    given = dict.fromkeys(Report.__dataclass_fields__, "")
    tags = (f"dromon:{id}",) if id else ()
    return Report(**{**given, "id": f"application_1700000000000_{number:04d}", "tags": tags})


JOBS = [  # the newest first
    report(9, ""),
    report(8, "eval-cccccc"),
    report(7, "train-bbbbbb"),
    report(6, "train-aaaaaa"),
    report(5, "tune-dddddd"),
]


@pytest.mark.parametrize(
    ("ref", "id"),
    [
        ("7", "train-bbbbbb"),
        ("9", None),
        ("70", None),
        ("train-aaaaaa", "train-aaaaaa"),
        ("train", "train-bbbbbb"),
        ("train-a", "train-aaaaaa"),
        ("ev", "eval-cccccc"),
        ("@last", "eval-cccccc"),
        ("@last~1", "train-bbbbbb"),
        ("@last~4", None),
        ("@last~x", None),
        ("@lastly", None),
        ("nothing", None),
    ],
)
def test_a_job_is_found_by_number_name_beginning_or_age(ref, id):
    assert find(ref, JOBS) == id


def test_a_beginning_that_several_have_is_ambiguous():
    with pytest.raises(AmbiguousJob, match="train-bbbbbb, train-aaaaaa"):
        find("tr", JOBS)


def test_a_job_that_was_submitted_twice_is_one():
    assert find("ev", [report(12, "eval-cccccc"), *JOBS]) == "eval-cccccc"
