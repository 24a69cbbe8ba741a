"""What a job's containers fetch: packed on this machine, named by content. Uploads nothing.

A packed file is named in the request under `artifacts` by the link its containers see.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dromon.engines.base import Progress
from dromon.engines.yarn.staging import MTIME, Artifact, Staging
from dromon.packaging import archive, lightapp, platforms
from dromon.packaging import function as function_archive
from dromon.storage.blobs import BlobStore

ARCHIVES = ("environment", "runtime", "function")  # unpacked by the node
SHARED = ("light.pyz", "runtime")  # nothing of the user's in them


@dataclass(frozen=True)
class Packed:
    """`files`: by link; `environment` with exact versions, for the record."""

    files: Mapping[str, tuple[str, Artifact]]
    environment: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    earlier: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # as they were, on HDFS

    @property
    def artifacts(self) -> dict[str, dict[str, Any]]:
        """What the request says of them."""
        found = {link: dict(file) for link, file in self.earlier.items()}
        for link, (_, artifact) in self.files.items():
            found[link] = {
                "url": artifact.url,
                "size": artifact.size,
                "timestamp": MTIME,
                "kind": "archive" if link in ARCHIVES else "file",
                "visibility": "public" if artifact.public else "private",
            }
        return found


@dataclass(frozen=True)
class Packer:
    blobs: BlobStore
    cache: str
    staging: Staging
    platform: str = platforms.DEFAULT
    python_tarball: str = ""
    environ: Mapping[str, str] | None = None

    def pack(self, request: Mapping[str, Any], progress: Progress) -> Packed:
        """Of a job that ran before, what is still on HDFS is not packed anew."""
        earlier = self._still_there(request["artifacts"])
        environment, notes = dict(request["environment"]), list[str]()
        light = lightapp.build(os.path.join(self.cache, "light"), engine="yarn", compiled=True)
        files = {"light.pyz": (light.path, light.digest, light.size, "pyz")}
        if environment["kind"] != "node" and "environment" not in earlier:
            environment, made, runtime = self._environment(environment, progress)
            files["environment"] = (made.path, made.digest, made.size, "tar.gz")
            files["runtime"] = (runtime.path, runtime.digest, runtime.size, "tar.gz")
            notes += made.notes
        if request["code"] is not None and "code.tar.gz" not in earlier:
            code = archive.code_archive(
                request["code"]["digest"], self.blobs, self.cache, progress=progress
            )
            files["code.tar.gz"] = (code.path, code.digest, code.size, "tar.gz")
        if request["payload"] is not None and "function" not in earlier:
            here = self.blobs.path(request["payload"]["digest"])
            function = function_archive.archive(here, self.cache)
            digest = self.blobs.put(function)
            files["function"] = (self.blobs.path(digest), digest, len(function), "tar.gz")
        named = {
            link: (path, self.staging.artifact(digest, end, size, public=link in SHARED))
            for link, (path, digest, size, end) in files.items()
        }
        return Packed(named, environment, tuple(notes), earlier)

    def _environment(
        self, environment: Mapping[str, Any], progress: Progress
    ) -> tuple[dict[str, Any], archive.Archive, archive.Archive]:
        platform, tarball, environ = self.platform, self.python_tarball, self.environ
        locked = archive.locked(
            environment, self.cache, platform=platform, python_tarball=tarball,
            fetch=self._fetch, environ=environ,
        )  # fmt: skip
        made = archive.environment_archive(
            locked, self.cache, platform=platform, python_tarball=tarball, fetch=self._fetch,
            environ=environ, progress=progress,
        )  # fmt: skip
        # The master needs no packages; its interpreter is the members', so that it runs the same.
        python = str(locked.get("python") or locked.get("python_hint") or "")
        lock = locked.get("lock")
        if lock is not None and os.path.exists(lock.get("interpreter", "")):
            python = str(lock["interpreter"])
        runtime = archive.runtime_archive(
            python, self.cache, platform=platform, python_tarball=tarball, fetch=self._fetch,
            environ=environ, progress=progress,
        )  # fmt: skip
        return locked, made, runtime

    def _fetch(self, url: str, path: str) -> None:
        """A tarball that lies on HDFS."""
        inside = url[len(self.staging.hdfs.url) :]
        with self.staging.hdfs.open(inside) as source, open(path, "wb") as out:
            while data := source.read(1 << 20):
                out.write(data)

    def _still_there(self, earlier: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        kept = ("environment", "runtime", "code.tar.gz", "function")
        found = {link: earlier[link] for link in kept if link in earlier}
        start = len(self.staging.hdfs.url)
        for file in found.values():
            status = self.staging.hdfs.stat(file["url"][start:])
            if status is None or (status.length, status.mtime) != (file["size"], MTIME):
                return {}
        return found
