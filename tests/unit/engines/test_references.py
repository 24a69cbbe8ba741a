"""Which job somebody means."""

import pytest

from dromon.engines.references import find
from dromon.errors import AmbiguousJob

# The newest first.
JOBS = {8: "eval-cccccc", 7: "train-bbbbbb", 6: "train-aaaaaa", 5: "tune-dddddd"}
IDS = list(JOBS.values())


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
    assert find(ref, IDS, JOBS) == id


def test_a_beginning_that_several_have_is_ambiguous():
    with pytest.raises(AmbiguousJob, match="train-bbbbbb, train-aaaaaa"):
        find("tr", IDS, JOBS)


def test_a_job_that_was_submitted_twice_is_one():
    assert find("ev", ["eval-cccccc", *IDS], JOBS) == "eval-cccccc"
