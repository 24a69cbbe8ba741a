"""What a user's jobs keep on HDFS: files by their digest, and a record for each job.

    /user/<u>/.dromon/blobs/<digest>.<ext>   put once, never changed; all of the same, fixed time
    /user/<u>/.dromon/jobs/<id>/             request.json, refs.json, key, application, …

1. A file appears under its name whole or not at all: it is written beside and renamed.
2. A record appears with what it must have, and names its blobs *before* they are looked for or
   put: `collect` takes nothing away that a record names.
3. YARN compares a file's time with what was submitted, so blobs have one that is known beforehand.

What is in a request is not known here. Only the user can read any of it, except for blobs under
the site's `public_root`, which every user of the cluster shares.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dromon.errors import EngineError, Refused
from dromon.hadoop.hdfsfaults import HdfsError, NoPermission, NotThere
from dromon.hadoop.webhdfs import Status
from dromon.storage.hdfs import Hdfs, Progress

MTIME = 1_000_000_000_000  # of every blob, in milliseconds
REQUEST, REFS, KEY, APPLICATION = "request.json", "refs.json", "key", "application"
TEMPORARY = ".tmp-"  # what a name begins with until it is whole
_DIGEST = re.compile(r"[0-9a-f]{16,128}")


class RecordGone(EngineError):
    """The job's record is not on HDFS any more."""

    hint = "`dromon gc`, or somebody, has removed it; submit the job again."


@dataclass(frozen=True)
class Artifact:
    """A blob, as a container is told of it. ``public``: shared by the users of the cluster."""

    digest: str
    url: str
    size: int
    public: bool = False
    mtime: int = MTIME

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


class Staging:
    """One user's staging directory. ``uploaded``: bytes that had to be sent so far."""

    def __init__(self, hdfs: Hdfs, root: str = "", *, public_root: str = "") -> None:
        self.hdfs = hdfs
        self.root = root or f"/user/{hdfs.user}/.dromon"
        self.blobs = f"{self.root}/blobs"
        self.jobs = f"{self.root}/jobs"
        self.public_root = public_root.rstrip("/")
        self.uploaded = 0

    # ---- blobs --------------------------------------------------------------------------------

    def artifact(self, digest: str, ext: str, size: int, *, public: bool = False) -> Artifact:
        """Where it is or would be. Public only where the site has a place for that."""
        if not _DIGEST.fullmatch(digest):
            raise EngineError(f"{digest!r} is no digest.")
        shared = public and bool(self.public_root)
        place = self.public_root if shared else self.blobs
        name = f"{digest}.{ext.lstrip('.')}" if ext else digest
        return Artifact(digest, f"{self.hdfs.url}{place}/{name}", size, shared)

    def path(self, artifact: Artifact) -> str:
        return artifact.url[len(self.hdfs.url) :]

    def missing(self, artifacts: Iterable[Artifact]) -> list[Artifact]:
        """Those that are not there, or not whole."""
        found: dict[str, dict[str, tuple[int, int]]] = {}
        lacking = []
        for artifact in artifacts:
            directory = self.path(artifact).rpartition("/")[0]
            if directory not in found:
                found[directory] = self._sizes(directory)
            if found[directory].get(artifact.name) != (artifact.size, artifact.mtime):
                lacking.append(artifact)
        return lacking

    def put(
        self,
        source: str | os.PathLike[str] | bytes,
        digest: str,
        ext: str,
        *,
        public: bool = False,
        progress: Progress | None = None,
    ) -> Artifact:
        """A local file, or bytes, whose digest is known. Nothing is sent if it is there."""
        size = len(source) if isinstance(source, bytes) else os.path.getsize(source)
        artifact = self.artifact(digest, ext, size, public=public)
        path = self.path(artifact)
        there = self.hdfs.stat(path)
        if there is not None and (there.length, there.mtime) == (size, MTIME):
            return artifact
        directory = path.rpartition("/")[0]
        if artifact.public:
            self._check_public(directory)
        else:
            self._directory(directory)
        permission = "644" if artifact.public else "600"
        beside = f"{directory}/{TEMPORARY}{digest[:16]}-{secrets.token_hex(8)}"
        try:
            self._send(source, beside, permission, progress)
            sent = self.hdfs.stat(beside)
            if sent is None or sent.length != size:
                raise HdfsError(
                    f"Cannot put {artifact.name} on HDFS: of {size:,} bytes"
                    f" {sent.length if sent else 0:,} arrived.",
                    hint="Did the file change meanwhile? Submit again.",
                )
            self.hdfs.set_permission(beside, permission)  # whatever the umask made of it
            self.hdfs.set_times(beside, MTIME)
            # Somebody else may have been quicker: the same bytes, so it is the same to us.
            self.hdfs.rename(beside, path, overwrite=True)
        except BaseException:
            self._forget(beside)
            raise
        return artifact

    # ---- records ------------------------------------------------------------------------------

    def create_record(
        self,
        id: str,
        request: Mapping[str, object],
        key: bytes,
        artifacts: Sequence[Artifact] = (),
    ) -> None:
        """The whole record at once. Call it before `missing` and `put`."""
        self._directory(self.jobs)
        beside = f"{self.jobs}/{TEMPORARY}{id}-{secrets.token_hex(8)}"
        files = {
            REQUEST: json.dumps(request).encode(),
            REFS: json.dumps(sorted({artifact.name for artifact in artifacts})).encode(),
            KEY: key,
        }
        try:
            self.hdfs.make_directory(beside, "700")
            for name, data in files.items():
                self.hdfs.write(f"{beside}/{name}", data, make_parents=False)
            if self.hdfs.stat(self.record(id)) is not None or not self.hdfs.rename(
                beside, self.record(id)
            ):
                raise EngineError(f"Job {id} has a record on HDFS already.")
        except BaseException:
            self._forget(beside)
            raise

    def record(self, id: str) -> str:
        """Its directory."""
        return f"{self.jobs}/{id}"

    def records(self) -> list[str]:
        """The ids of all jobs that have one."""
        return [
            name
            for name, status in self._list(self.jobs)
            if status.is_directory and not name.startswith(".")
        ]

    def read_file(self, id: str, name: str) -> bytes | None:
        try:
            return self.hdfs.read(f"{self.record(id)}/{name}")
        except NotThere:
            return None

    def write_file(self, id: str, name: str, data: bytes) -> None:
        """Readers see the old content or the new, whole."""
        self._place(id, name, data, overwrite=True)

    def claim(self, id: str, application: str) -> str:
        """Who submits the job: of all that claim it, the first. Returns the first one's content."""
        if self._place(id, APPLICATION, application.encode(), overwrite=False):
            return application
        earlier = self.read_file(id, APPLICATION)
        if earlier is None:
            raise RecordGone(f"Job {id} has no record on HDFS ({self.record(id)}).")
        return earlier.decode()

    def refs(self, id: str) -> set[str]:
        """The names of the blobs a record needs; every digest of the request where it does not
        say."""
        listed = self.read_file(id, REFS)
        try:
            if listed is not None:
                return {str(name) for name in json.loads(listed)}
        except (ValueError, TypeError):
            pass
        return set(_DIGEST.findall((self.read_file(id, REQUEST) or b"").decode("utf-8", "replace")))

    def remove_record(self, id: str) -> None:
        self.hdfs.delete(self.record(id))

    # ---- inside -------------------------------------------------------------------------------

    def _place(self, id: str, name: str, data: bytes, *, overwrite: bool) -> bool:
        beside = f"{self.record(id)}/{TEMPORARY}{name}-{secrets.token_hex(8)}"
        try:
            self.hdfs.write(beside, data, make_parents=False)
            done = self.hdfs.rename(beside, f"{self.record(id)}/{name}", overwrite=overwrite)
        except NotThere:
            raise RecordGone(f"Job {id} has no record on HDFS ({self.record(id)}).") from None
        except BaseException:
            self._forget(beside)
            raise
        if not done:
            self._forget(beside)
        return done

    def _send(
        self,
        source: str | os.PathLike[str] | bytes,
        path: str,
        permission: str,
        progress: Progress | None,
    ) -> None:
        if isinstance(source, bytes):
            self.hdfs.write(path, source, permission=permission)
            self.uploaded += len(source)
            if progress is not None:
                progress(len(source), len(source))
        else:
            self.uploaded += self.hdfs.upload(
                source, path, permission=permission, progress=progress
            )

    def _sizes(self, directory: str) -> dict[str, tuple[int, int]]:
        return {name: (status.length, status.mtime) for name, status in self._list(directory)}

    def _list(self, directory: str) -> list[tuple[str, Status]]:
        try:
            return self.hdfs.list(directory)
        except NotThere:
            return []

    def _directory(self, path: str) -> None:
        try:
            self.hdfs.make_directory(self.root, "700")  # by itself: parents get other permissions
            self.hdfs.make_directory(path, "700")
        except NoPermission as error:
            home = f"/user/{self.hdfs.user}"
            hint = error.hint
            if self.root.startswith(f"{home}/") and self.hdfs.stat(home) is None:
                hint = f"Ask for the home directory {home} on HDFS: it does not exist."
            raise NoPermission(str(error), exception=error.exception, hint=hint) from None

    def _check_public(self, path: str) -> None:
        """YARN takes a file for public only if all of the world can reach and read it."""
        parts = path.strip("/").split("/")
        for depth in range(len(parts)):
            directory = "/" + "/".join(parts[: depth + 1])
            status = self.hdfs.stat(directory)
            if status is None or not int(status.permission[-1], 8) & 1:
                raise Refused(
                    f"{path} cannot hold what all users share: {directory}"
                    + (" does not exist." if status is None else f" is {status.permission}."),
                    hint="It and all directories above it must be open to everybody (o+rx).",
                )

    def _forget(self, path: str) -> None:
        """Best effort: `collect` takes away what stays."""
        try:
            self.hdfs.delete(path)
        except HdfsError:
            pass
