"""With whom a job's logs are shared."""

import os

import pytest

from dromon.engines.local.shared.door import is_shown
from dromon.engines.local.shared.people import Person

TEAM = frozenset({"vision"})


@pytest.mark.parametrize(
    ("acls", "who", "shown"),
    [
        ({}, Person(4000001, "bob", TEAM), False),
        ({"view": ["bob"]}, Person(4000001, "bob", frozenset()), True),
        ({"view": ["vision"]}, Person(4000001, "bob", TEAM), True),
        ({"view": ["ann"]}, Person(4000001, "bob", TEAM), False),
        ({"modify": ["bob"]}, Person(4000001, "bob", TEAM), False),
        ({}, Person(os.getuid(), "me", frozenset()), True),
        ({}, Person(0, "root", frozenset()), True),
    ],
)
def test_logs_are_shown_to_whom_the_job_file_names(acls: dict, who: Person, shown: bool):
    assert is_shown(acls, who) is shown
