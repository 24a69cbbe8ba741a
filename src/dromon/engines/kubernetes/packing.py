"""What a job's pods fetch: packed on this machine, named by content. Sends nothing.

A packed file is named in the request under `artifacts` by the name its pods know it under.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dromon.engines.base import Progress
from dromon.engines.kubernetes.carriers import standalone
from dromon.engines.kubernetes.documents import to_yaml
from dromon.engines.kubernetes.pod.places import CODE, ENVIRONMENT, FUNCTION
from dromon.packaging import archive, function, lightapp, platforms
from dromon.storage.blobs import BlobStore


@dataclass(frozen=True)
class Packed:
    """`files`: path on this machine by name; `environment` with exact versions, for the record."""

    files: Mapping[str, str]
    artifacts: Mapping[str, Mapping[str, Any]]
    environment: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def light(cache: str, *, compiled: bool = True) -> lightapp.LightApp:
    return lightapp.build(os.path.join(cache, "light"), engine="kubernetes", compiled=compiled)


def manifest(request: Mapping[str, Any], blobs: BlobStore, cache: str) -> str:
    """All that `kubectl apply -f -` needs to run the job without us, as YAML."""
    runtime = light(cache, compiled=False)
    with open(runtime.path, "rb") as file:
        ours = file.read()
    code = None
    if request["code"] is not None:
        packed = archive.code_archive(request["code"]["digest"], blobs, cache)
        with open(packed.path, "rb") as file:
            code = file.read()
    return to_yaml(standalone(request, ours, code))


def pack(
    request: Mapping[str, Any],
    blobs: BlobStore,
    cache: str,
    progress: Progress,
    *,
    platform: str = "",
    is_there: Mapping[str, Any],
) -> Packed:
    """`is_there`: blobs of the store; what a job that ran before left there is not packed anew."""
    kept = {
        name: artifact
        for name, artifact in request["artifacts"].items()
        if artifact["blob"] in is_there
    }
    environment, notes = dict(request["environment"]), list[str]()
    found: dict[str, tuple[str, str, int]] = {}
    if environment["kind"] != "image" and ENVIRONMENT not in kept:
        nodes = platform or platforms.DEFAULT
        environment = archive.locked(environment, cache, platform=nodes, environ=os.environ)
        made = archive.environment_archive(
            environment, cache, platform=nodes, environ=os.environ, progress=progress
        )
        found[ENVIRONMENT] = (made.path, made.digest, made.size)
        notes += made.notes
    if request["code"] is not None and CODE not in kept:
        code = archive.code_archive(request["code"]["digest"], blobs, cache, progress=progress)
        found[CODE] = (code.path, code.digest, code.size)
    if request["payload"] is not None and FUNCTION not in kept:
        packed = function.archive(blobs.path(request["payload"]["digest"]), cache)
        digest = blobs.put(packed)
        found[FUNCTION] = (blobs.path(digest), digest, len(packed))
    artifacts = {
        name: {"blob": f"{digest.removeprefix('sha256:')}.tar.gz", "size": size}
        for name, (_, digest, size) in found.items()
    }
    files = {name: path for name, (path, _, _) in found.items()}
    return Packed(files, {**kept, **artifacts}, environment, tuple(notes))
