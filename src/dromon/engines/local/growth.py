"""When an elastic gang that runs is given more members. Times are arguments.

Its world is fixed for an attempt, so growing costs a restart from its checkpoint. It is not done
for every small gap: not soon after its size has changed, and only when it has just saved its work.
Members are given back whenever others need them; that is no question here.
"""

from collections.abc import Callable

from dromon.sched import events
from dromon.sched.cluster import Cluster

PAUSE = 600.0  # seconds between two changes of size, where the site says no `min_run_time`
FRESH = 60.0  # seconds in which a checkpoint counts as just written

_SIZES = (events.JobStarted, events.JobGrown, events.JobShrunk)
_LEAVES = (events.JobReleased, events.JobEnded)


class Growth:
    """`gathers`: the job's members still come to their barrier, and more of them cost nothing."""

    def __init__(self, cluster: Cluster, gathers: Callable[[str], bool]) -> None:
        self._cluster = cluster
        self._gathers = gathers
        self._since: dict[str, float] = {}  # job -> when it got the size it has
        self._waits: dict[str, float] = {}  # would grow, and may not yet -> when it may

    def hear(self, event: events.Event) -> bool:
        """Whether a growth that waits could be allowed now."""
        if isinstance(event, _SIZES):
            self._since[event.id] = event.time
        elif isinstance(event, _LEAVES):
            self._since.pop(event.id, None)
            self._waits.pop(event.id, None)
        return isinstance(event, events.JobCheckpointed) and event.id in self._waits

    def allows(self, id: str, now: float) -> bool:
        if self._gathers(id):
            return True
        since = self._since.get(id, 0.0)
        self._waits[id] = since + (self._cluster.rules.min_run_time or PAUSE)
        saved = self._cluster.jobs[id].checkpointed
        if now < self._waits[id] or saved is None or not max(since, now - FRESH) < saved:
            return False
        del self._waits[id]
        return True

    def wakes(self, now: float) -> float | None:
        """When one that waits has waited long enough."""
        return min((at for at in self._waits.values() if at > now), default=None)
