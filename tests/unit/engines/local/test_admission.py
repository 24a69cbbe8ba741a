"""A request against the site file: refused with the way out, or as the site makes it."""

from typing import Any

import pytest

from dromon.engines.local.admission import admitted
from dromon.errors import Refused
from dromon.site.file import load_site

SITE = load_site(
    """\
queues:
  short: {max_duration: 1h, non_preemptible: false}
  long: {max_duration: 2d}
  lab: {}
  vision: {parent: lab, submit: {groups: [vision]}}
  closed: {open: false}
priorities:
  low: 1
  normal: {value: 5, default: true}
  urgent: {value: 9, submit: {users: [ann]}}
""",
    "s",
)


def ask(user: str = "eve", groups: frozenset[str] = frozenset(), site=SITE, **keys: Any) -> Any:
    duration = keys.pop("max_duration", None)
    job = {"priority": keys.pop("priority")} if "priority" in keys else {}
    request = {
        "queue": "short", "preemptible": True, "priority": "?", "job": job,
        "gang": {"max_duration": duration}, **keys,
    }  # fmt: skip
    return admitted(site, request, user, groups)


@pytest.mark.parametrize(
    ("keys", "words", "hint"),
    [
        ({"queue": "shrt"}, "there is no queue 'shrt' here", "Did you mean short?"),
        ({"queue": "zzz"}, "there is no queue 'zzz'", "Open to you: short, long."),
        ({"queue": "lab"}, "takes no jobs itself: it is divided among vision", "short, long"),
        ({"queue": "vision"}, "eve may not submit to queue vision, only the group vision may",
         "Open to you: short, long."),
        ({"queue": "closed"}, "queue closed is drained", "short, long"),
        ({"max_duration": 7200.0}, "max_duration 2h00m is more than queue short gives, 1h00m",
         "Queue long would take it."),
        ({"max_duration": 864000.0}, "more than queue short gives", "Ask for less."),
        ({"preemptible": False}, "queue short takes no job that says preemptible: false",
         "Leave it out, or use queue long."),
        ({"priority": "urgnt"}, "priority 'urgnt' is no class", "One of low, normal."),
        ({"priority": "urgent"}, "eve may not use priority urgent, only ann may", "low, normal"),
        ({"priority": 9}, "priority 9 is no class of this site that is yours", "low, normal"),
    ],
)  # fmt: skip
def test_what_the_site_forbids_is_refused_with_the_way_out(keys, words, hint):
    with pytest.raises(Refused) as caught:
        ask(**keys)
    assert words in caught.value.message
    assert hint in caught.value.hint


def test_a_class_becomes_its_number_and_the_queue_says_how_long():
    assert ask()["priority"] == 5
    assert ask(priority="low")["priority"] == 1
    assert ask(priority=1)["priority"] == 1
    assert ask("ann", priority="urgent")["priority"] == 9
    assert ask()["gang"]["max_duration"] == 3600.0
    assert ask(max_duration=60.0)["gang"]["max_duration"] == 60.0


def test_a_queue_is_open_to_the_groups_it_names():
    assert ask(groups=frozenset({"vision"}), queue="vision")["queue"] == "vision"


def test_jobs_that_name_no_queue_are_always_taken():
    assert ask(queue="default")["queue"] == "default"


def test_without_a_site_file_every_queue_goes_and_the_built_in_classes_count():
    site = load_site("{}", "s")
    found = ask(site=site, queue="any", priority="high", preemptible=False)
    assert (found["priority"], found["gang"]["max_duration"]) == (90, None)
    assert ask(site=site, priority=7)["priority"] == 7
    with pytest.raises(Refused, match="priority 'gold' is no class"):
        ask(site=site, priority="gold")
