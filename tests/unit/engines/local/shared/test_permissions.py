"""What a daemon says of its job is checked by the site's rules, whatever that daemon thinks."""

import pytest

from dromon.engines.local.shared.people import Person
from dromon.engines.local.shared.permissions import Permissions
from dromon.errors import Refused
from dromon.sched.asks import RoleAsk
from dromon.sched.events import JobSubmitted
from dromon.site.file import load_site

SITE = load_site(
    """
queues:
  open: {max_duration: 1h}
  private: {submit: {users: [ann], groups: [team]}}
priorities:
  normal: {value: 1000, default: true}
  urgent: {value: 9000, submit: {groups: [team]}}
admins: {groups: [ops]}
""",
    "site.yaml",
)
ANN = Person(1, "ann", frozenset())
BOB = Person(2, "bob", frozenset({"team"}))
EVE = Person(3, "eve", frozenset({"ops"}))


def asked(queue: str, priority: int = 1000, duration: float | None = None) -> JobSubmitted:
    ask = (RoleAsk("worker", 1, 1),)
    return JobSubmitted("x", 1, 0.0, ask, priority, True, queue=queue, max_duration=duration)


@pytest.mark.parametrize(
    ("who", "job", "refused"),
    [
        (EVE, asked("open"), ""),
        (EVE, asked("private"), "may not submit"),
        (ANN, asked("private"), ""),
        (BOB, asked("private"), ""),
        (EVE, asked("nowhere"), "no queue"),
        (BOB, asked("open", 9000), ""),
        (ANN, asked("open", 9000), "9000"),
        (ANN, asked("open", 999_999), "999999"),
        (ANN, asked("open", duration=7200.0), "max_duration"),
    ],
)
def test_queues_classes_and_durations_are_the_sites_to_give(
    who: Person, job: JobSubmitted, refused: str
):
    permissions = Permissions(lambda: SITE, 77)
    if not refused:
        permissions.check(who, job)
        return
    with pytest.raises(Refused, match=refused):
        permissions.check(who, job)


def test_admins_are_named_by_the_site_or_run_the_arbiter():
    permissions = Permissions(lambda: SITE, ANN.uid)
    root = Person(0, "root", frozenset())
    assert [permissions.is_admin(who) for who in (ANN, BOB, EVE, root)] == [True, False, True, True]
