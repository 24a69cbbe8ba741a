"""Why a job does not run, and helping it on where Volcano has forgotten it: `why` and `watchdog`
with hands."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from dromon.engines.base import JobRef, Waiting
from dromon.engines.kubernetes import pods as podfacts
from dromon.engines.kubernetes import situation, status, volcano, watchdog, why
from dromon.engines.kubernetes.jobs import Jobs
from dromon.engines.kubernetes.nodes import plain_amounts
from dromon.lifecycle import states

Object = dict[str, Any]


class Tending:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def why(self, job: Object) -> Waiting | None:
        id = str(job["metadata"]["name"])
        pods = self._jobs.pods(id)
        now = self._jobs.status(job, pods)
        if now.is_terminal:
            return None
        told = self._jobs.told(job, pods, over=False)
        is_whole = status.phase(job) == status.RUNNING and not any(
            pod.deleted is not None or pod.is_unheard for pod in map(podfacts.facts, pods)
        )
        if told is not None and is_whole and now.state not in (states.QUEUED, states.STARTING):
            return why.of_gang(told, time.time())
        found = self._gathered(id)
        for words in self._cure(found):
            return Waiting(words, "resources")
        waiting = why.explain(found, time.time())
        return waiting._replace(missing=plain_amounts(waiting.missing))

    def look_after_all(self) -> list[str]:
        return [
            f"{job['metadata']['name']}: {words}"
            for job in self._jobs.all()
            if _is_suspect(job, time.time())
            for words in self._cure(self._gathered(job["metadata"]["name"]))
        ]

    def _gathered(self, id: JobRef) -> situation.Situation:
        return situation.gather(self._jobs.api, self._jobs.namespace, id)

    def _cure(self, found: situation.Situation) -> list[str]:
        """What is wrong that Volcano does not see, in words; cured where it can be."""
        told = []
        for finding in watchdog.look(found, time.time()):
            for call in finding.cure:
                self._jobs.carry_out(call)
            told.append(f"{finding.sentence}; Dromon has stepped in" if finding.cure
                        else finding.sentence)  # fmt: skip
        return told


def _is_suspect(job: Mapping[str, Any], now: float) -> bool:
    """It is in a state from which Volcano is known not to come back, for long."""
    if status.is_plain(job) or status.phase(job) in volcano.ENDED:
        return False
    return now - (status.phase_since(job) or status.submitted(job)) > watchdog.PATIENCE
