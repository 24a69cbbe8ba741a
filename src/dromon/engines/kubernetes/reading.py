"""Following one job: how it stands, and its lines, as long as somebody reads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dromon.agent.record import runs_among
from dromon.engines.base import JobRef, JobStatus, LogLine
from dromon.engines.kubernetes import pods as podfacts
from dromon.engines.kubernetes import volcano
from dromon.engines.kubernetes.ending import Ending
from dromon.engines.kubernetes.lines import AWAY, PodLines, Wanted, from_record
from dromon.engines.kubernetes.volcano import POD, Kind
from dromon.engines.kubernetes.watch import Following, Watch
from dromon.errors import JobNotFound
from dromon.lifecycle import states
from dromon.observe.logs import Source

if TYPE_CHECKING:
    from dromon.engines.kubernetes.engine import KubernetesEngine
    from dromon.engines.kubernetes.store import Store

POLL = 0.2  # seconds between two looks into the store
ASK, ASK_SELDOM = 0.5, 15.0  # seconds between two questions to a coordinator


class Reading:
    def __init__(self, engine: KubernetesEngine) -> None:
        self._api, self._namespace = engine.api, engine.namespace
        self._jobs, self._store = engine.jobs, engine.store

    def watch(
        self, id: JobRef, kind: Kind, *, ask: bool, deadline: float | None = None
    ) -> Iterator[JobStatus]:
        """One list, then what changes; and in between what the record says, or, if one is to
        `ask`, the coordinator. Ends with the job, or at the deadline."""
        jobs = Watch(
            self._api, kind, self._namespace, fields=f"metadata.name={id}", patience=AWAY
        )  # fmt: skip
        labels = f"{volcano.JOB_LABEL}={id}"
        pods = Watch(self._api, POD, self._namespace, labels=labels, patience=AWAY)
        jobs.load()
        pods.load()
        last = None
        pause = ASK  # until the coordinator is asked again though nothing has changed
        with Following(jobs, pods) as following:
            while last is None or not last.is_terminal:
                if (self._namespace, id) not in jobs.objects:
                    raise JobNotFound(f"{id} was removed")
                job = jobs.objects[self._namespace, id]
                now = self._jobs.status(job, list(pods.objects.values()), ask=ask)
                if now != last:
                    yield now
                    pause = ASK
                last = now
                left = float("inf") if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return
                if not now.is_terminal:
                    following.next(min(POLL if self._store is not None else pause, left))
                    pause = min(pause * 1.5, ASK_SELDOM)

    def lines(self, id: JobRef, kind: Kind, wanted: Wanted, *, follow: bool) -> Iterator[LogLine]:
        if self._store is not None:
            return self._recorded(self._store, id, kind, wanted, follow)

        def look() -> tuple[bool, dict[str, tuple[str, int | None]]]:
            pods = self._jobs.pods(id)
            now = self._jobs.status(self._jobs.read(id), pods)
            by_member = {m.member: m.rank for m in now.members}
            found = {}
            for pod in pods:
                member = podfacts.facts(pod).member
                found[str(pod["metadata"]["name"])] = (member, by_member.get(member))
            return now.is_terminal, found

        return PodLines(self._api, self._namespace, look, wanted).lines(follow=follow)

    def _recorded(
        self, store: Store, id: JobRef, kind: Kind, wanted: Wanted, follow: bool
    ) -> Iterator[LogLine]:
        with Ending(self._api, kind, self._namespace, id) as is_ended:
            yield from from_record(
                store.record(id), lambda: _runs(store, id, is_ended), wanted, follow=follow
            )


def _runs(store: Store, id: JobRef, is_ended: Callable[[], bool]) -> tuple[bool, list[Source]]:
    """Whether it is over, and every run there is. `is_ended`: what Kubernetes says, where the
    record does not say it."""
    told = store.status(id) or {}
    ranks = {m["member"]: m["rank"] for m in told.get("members", ())}
    over = states.is_terminal(str(told.get("state", states.QUEUED))) or is_ended()
    try:
        names = os.listdir(store.record(id).root)
    except FileNotFoundError:
        names = []
    return over, [Source(member, run, ranks.get(member)) for member, run in runs_among(names)]
