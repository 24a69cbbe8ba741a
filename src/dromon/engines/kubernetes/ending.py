"""Hearing that a job has ended, for whoever follows what it says in the store."""

from __future__ import annotations

import time

from dromon.engines.base import JobRef
from dromon.engines.kubernetes import status, volcano
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.refusals import ApiError
from dromon.engines.kubernetes.volcano import Kind
from dromon.engines.kubernetes.watch import Following, Watch

LOOK = 2.0  # seconds for which a job's record alone is believed
AGAIN = 10.0  # the same, where Kubernetes could not be asked


class Ending:
    """Whether Kubernetes has ended a job, or it is gone; nobody waits for the answer. Where the
    API server is away, or does not let us look, the job's record is believed a while longer."""

    def __init__(self, api: Api, kind: Kind, namespace: str, id: JobRef) -> None:
        self._api, self._kind, self._namespace, self._id = api, kind, namespace, id
        self._watch: Watch | None = None
        self._following: Following | None = None
        self._begins = time.monotonic() + LOOK

    def __call__(self) -> bool:
        if self._following is None:
            if time.monotonic() >= self._begins:
                self._watch = Watch(
                    self._api, self._kind, self._namespace, fields=f"metadata.name={self._id}"
                )
                self._following = Following(self._watch)
            return False
        assert self._watch is not None
        try:
            while self._following.next(0) is not None:
                pass
        except ApiError:
            self.close()
            self._begins = time.monotonic() + AGAIN
            return False
        jobs = list(self._watch.objects.values())
        if jobs:
            return status.phase(jobs[0]) in volcano.ENDED
        return self._watch.is_loaded

    def close(self) -> None:
        if self._following is not None:
            self._following.close()
            self._following = None

    def __enter__(self) -> Ending:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
