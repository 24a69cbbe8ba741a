"""An object store that a job's code and environment go through: what is there already, and sending.

Pods fetch from it (`pod/objects`). Nothing is ever deleted there.
"""

from __future__ import annotations

import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import BinaryIO

from dromon.engines.kubernetes.pod import objects
from dromon.errors import EngineError

LARGEST = 5 * 2**30  # bytes that S3 takes in one piece


class BucketUnusable(EngineError):
    """The object store does not take the job's archives."""

    hint = (
        "`blobs` of the context says where; AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY how it is reached."
    )


class Bucket:
    """`where`: s3://bucket/prefix; `environ`: the variables that every S3 tool reads."""

    def __init__(
        self, where: str, environ: Mapping[str, str], pause: float = objects.PAUSE
    ) -> None:
        name, self._prefix = objects.parts(where)
        self.reach = {key: environ[key] for key in objects.VARIABLES if environ.get(key)}
        self._place = objects.bucket(name, self.reach, pause)
        self._where = where

    def put(self, path: str, name: str, progress: Callable[[int, int], None]) -> None:
        """A file under the name of its content; one that is there already is not sent again."""
        size = os.path.getsize(path)
        if size > LARGEST:
            raise BucketUnusable(
                f"{name} has {size / 2**30:.1f} GiB: an object store takes 5 in one piece",
                hint="Leave large packages to the image, or give the context a store.",
            )
        if self._size(name) == size:
            return
        for number in range(objects.TRIES):
            with open(path, "rb") as file:
                trouble, may_pass = self._send(name, _Told(file, size, progress), size)
            if not trouble:
                return
            if not may_pass:
                break
            time.sleep(self._place.pause * 2**number)
        raise BucketUnusable(f"{self._where}/{name} cannot be written: {trouble}")

    def _send(self, name: str, body: _Told, size: int) -> tuple[str, bool]:
        """What is wrong, and whether another try may help."""
        digest = name.partition(".")[0]  # the server takes nothing else under this name
        request = self._request("PUT", name, digest)
        request.data = body
        request.add_header("Content-Length", str(size))
        # urllib would call it a form, and some servers would take it for one.
        request.add_header("Content-Type", "application/gzip")
        try:
            with urllib.request.urlopen(request, timeout=objects.TIMEOUT):
                return "", False
        except urllib.error.HTTPError as error:
            return objects.words_of(error), error.code in objects.AGAIN
        except OSError as error:
            return str(getattr(error, "reason", error)), True

    def _size(self, name: str) -> int | None:
        """None: it is not there, or we may not look."""
        request = self._request("HEAD", name, objects.NOTHING)
        try:
            with urllib.request.urlopen(request, timeout=objects.TIMEOUT) as answer:
                return int(answer.headers.get("Content-Length") or -1)
        except OSError:
            return None

    def _request(self, method: str, name: str, content: str) -> urllib.request.Request:
        key = f"{self._prefix}/{name}"
        address, headers = objects.signed(self._place, key, {}, time.time(), method, content)
        return urllib.request.Request(address, headers=headers, method=method)


class _Told:
    """A file that says how much of it was read."""

    def __init__(self, file: BinaryIO, size: int, progress: Callable[[int, int], None]) -> None:
        self._file, self._total, self._progress = file, size, progress

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._progress(self._file.tell(), self._total)
        return data
