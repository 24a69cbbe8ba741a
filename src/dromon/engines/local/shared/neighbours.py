"""What a command asks about other users' jobs. The arbiter answers, by who the kernel says asks.

A job of another's is called `user/id`, as `dromon ps --all-users` shows it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dromon.engines.base import JobStatus, LogLine, Waiting
from dromon.engines.local.shared.control import found
from dromon.engines.local.shared.link import question


def jobs() -> list[JobStatus]:
    """All that run or wait, in the order they came."""
    return [_status(each) for each in question(found(), "everyone")["jobs"]]


def status(ref: str) -> JobStatus:
    """Also of one that has ended."""
    return _status(question(found(), "about", id=ref)["job"])


def _status(each: Mapping[str, Any]) -> JobStatus:
    return JobStatus(
        id=each["key"], number=0, name=each["id"].rpartition("-")[0], state=each["state"],
        engine="local", queue=each["queue"], priority=each["priority"],
        submitted=each["submitted"], started=each["started"], ended=each["ended"], attempt=0,
        user=each["user"], verdict=None, resources=each["resources"],
    )  # fmt: skip


def stop(ref: str, grace: float | None) -> Mapping[str, Any]:
    return question(found(), "stop", id=ref, grace=grace)


def why(ref: str) -> Waiting | None:
    said = question(found(), "why", id=ref)["waiting"]
    lists = {key: tuple(said[key]) for key in ("holders", "unblock")}
    return Waiting(**{**{key: said[key] for key in Waiting._fields}, **lists})


def lines(ref: str, *, follow: bool, tail: int | None) -> Iterator[LogLine]:
    """What a job of another user's printed, if it is shared with us; from its daemon itself."""
    from dromon.engines.local.shared import door

    at = question(found(), "door", id=ref)
    return door.read(str(at["path"]), int(at["uid"]), str(at["id"]), follow=follow, tail=tail)


def audit(limit: int) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = question(found(), "audit", limit=limit)["audit"]
    return answer
