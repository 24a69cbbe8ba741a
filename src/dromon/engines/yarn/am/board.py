"""TensorBoard through the master's web page: requests are passed on to where it listens."""

from __future__ import annotations

import http.client
import json
import threading
import time
from urllib.parse import urlsplit

from dromon.engines.yarn.am.tensorboard import FILE
from dromon.errors import DromonError
from dromon.hadoop.webhdfs import WebHdfs

FRESH = 10.0  # seconds that its address is believed before the record is read again
PATIENCE = 30.0
PASSED_ON = ("Accept", "Accept-Encoding", "Content-Type", "If-None-Match")
PASSED_BACK = ("Content-Type", "Content-Encoding", "ETag", "Location")

Answer = tuple[int, dict[str, str], bytes]


class Board:
    def __init__(self, hdfs: WebHdfs, record: str) -> None:
        self._hdfs = hdfs
        self._record = record
        self._known = ("", 0.0)
        self._lock = threading.Lock()

    def ask(self, path: str, headers: dict[str, str]) -> Answer:
        """What it answers; 503 while it is not there."""
        url = self._url()
        if not url:
            return 503, {"Content-Type": "text/plain"}, b"TensorBoard is not up (yet).\n"
        parts = urlsplit(url)
        line = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        try:
            passed = {k: v for k, v in headers.items() if k in PASSED_ON}
            line.request("GET", path, headers=passed)
            answer = line.getresponse()
            body = answer.read()
            back = {k: v for k in PASSED_BACK if (v := answer.getheader(k))}
            return answer.status, back, body
        except (OSError, http.client.HTTPException) as error:
            self._known = ("", 0.0)
            words = f"TensorBoard does not answer: {error}\n".encode()
            return 502, {"Content-Type": "text/plain"}, words
        finally:
            line.close()

    def _url(self) -> str:
        with self._lock:
            url, since = self._known
            if not url or time.monotonic() - since > FRESH:
                try:
                    found = json.loads(self._hdfs.read(f"{self._record}/{FILE}"))
                    self._known = (str(found["url"]), time.monotonic())
                except (OSError, DromonError, ValueError, KeyError):
                    return url
            return self._known[0]
