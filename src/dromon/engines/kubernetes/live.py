"""The coordinator of a running job, as its client asks it: through the API server's pod proxy."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from dromon.coordinator.proof import HEADER, MARK, proof
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.refusals import ApiError
from dromon.engines.kubernetes.volcano import PAGE_PORT


class Silent(Exception):
    """The coordinator does not answer: not yet, no more, or we may not ask."""


class Live:
    """The coordinator of job `id` in `pod`; `key` gives the job's."""

    def __init__(
        self, api: Api, namespace: str, pod: str, id: str, key: Callable[[], bytes]
    ) -> None:
        self._api = api
        self._namespace = namespace
        self.pod = pod
        self._id = id
        self._key = key

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self._ask("GET", "/status.json")))

    def stop(self, by: str, grace: float | None) -> None:
        self._ask("POST", "/stop", json.dumps({"by": by, "grace": grace}).encode())

    def _ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        try:
            proven = proof(self._key(), method, path, body, time.time())
            status, headers, answer = self._api.proxy(
                self._namespace, self.pod, PAGE_PORT, method, path, body, {HEADER: proven}
            )
        except ApiError as error:
            raise Silent(error.message) from None
        if (
            status != 200
            or {k.lower(): v for k, v in headers.items()}.get(MARK.lower()) != self._id
        ):
            raise Silent(f"{self.pod} answers {status}")
        return answer
