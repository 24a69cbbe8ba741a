"""The ApplicationMaster of a running job, as its client asks it: status, growing logs, stop.

Asked directly; where its node cannot be reached from here, through YARN's own proxy, which
passes on looks but no orders.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any

from dromon.coordinator.proof import HEADER, MARK, proof

PATIENCE = 5.0
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Silent(Exception):
    """The master does not answer: not yet, no more, or not from here."""


class Live:
    """The master of job `id`. `urls`: where it may be asked, the best first; `key` is the job's."""

    def __init__(self, id: str, urls: list[str], key: bytes) -> None:
        self._id = id
        # Where there is none, YARN says N/A.
        self._urls = [url.rstrip("/") for url in urls if url.startswith("http")]
        self._key = key

    def status(self) -> dict[str, Any]:
        try:
            return dict(json.loads(self._ask("GET", "/status.json")))
        except urllib.error.HTTPError as error:
            raise Silent(str(error)) from None

    def piece(self, name: str, offset: int) -> bytes | None:
        """What a log has from there on, as much as fits into one answer; None: it is not there."""
        try:
            return self._ask("GET", f"/logs/{name}?offset={offset}")
        except urllib.error.HTTPError:
            return None

    def stop(self, by: str, grace: float | None) -> None:
        try:
            self._ask("POST", "/stop", json.dumps({"by": by, "grace": grace}).encode())
        except urllib.error.HTTPError as error:
            raise Silent(str(error)) from None

    def _ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        last: Exception | None = None
        for base in self._urls:
            request = urllib.request.Request(
                base + path,
                data=body if method == "POST" else None,
                method=method,
                headers={HEADER: proof(self._key, method, path, body, time.time())},
            )
            try:
                with _direct.open(request, timeout=PATIENCE) as answer:
                    if answer.headers.get(MARK) != self._id:  # a page of YARN's, or another job's
                        raise ConnectionError("it is not there")
                    return bytes(answer.read())
            except urllib.error.HTTPError as error:
                error.close()
                if error.headers.get(MARK) == self._id:
                    raise
                last = error
            except (OSError, http.client.HTTPException) as error:
                last = error
        raise Silent(str(last or "its address is not known"))
