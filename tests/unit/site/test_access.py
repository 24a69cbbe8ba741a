"""Who may do what: by name, by group, and along the tree."""

import pytest

from dromon.site import access
from dromon.site.file import load_site

SITE = load_site(
    """\
queues:
  open: {}
  lab: {submit: {groups: [lab]}}
  vision: {parent: lab, submit: {users: [ann, bob]}}
priorities: {low: 1, urgent: {value: 9, submit: {users: [ann], groups: [lead]}}}
admins: [ops]
""",
    "s",
)
NOBODY = frozenset[str]()


@pytest.mark.parametrize(
    ("queue", "user", "groups", "may"),
    [
        ("open", "eve", NOBODY, True),
        ("elsewhere", "eve", NOBODY, True),
        ("lab", "eve", NOBODY, False),
        ("lab", "eve", {"lab"}, True),
        ("vision", "ann", NOBODY, False),  # in the queue, but not in the one above it
        ("vision", "ann", {"lab"}, True),
        ("vision", "eve", {"lab"}, False),
    ],
)
def test_a_queue_is_open_to_those_it_and_all_above_it_name(queue, user, groups, may):
    assert access.may_submit(SITE, queue, user, groups) is may


def test_a_class_is_open_to_those_it_names():
    assert access.may_use(SITE, "low", "eve", NOBODY)
    assert access.may_use(SITE, "urgent", "ann", NOBODY)
    assert access.may_use(SITE, "urgent", "eve", {"lead"})
    assert not access.may_use(SITE, "urgent", "eve", NOBODY)


def test_without_a_list_nobody_is_an_administrator():
    assert access.is_admin(SITE, "eve", {"ops"})
    assert not access.is_admin(SITE, "eve", NOBODY)
    assert not access.is_admin(load_site("{}", "s"), "root", {"ops"})


def test_who_may_is_told_in_words():
    urgent = SITE.priorities["urgent"].submit
    assert urgent is not None
    assert access.told(urgent) == "ann and the group lead"
