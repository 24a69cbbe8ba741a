"""What a job's record tells after the fact, and taking away what no job needs any more."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from dromon.agent.record import Record
from dromon.engines import base
from dromon.engines.kubernetes import volcano
from dromon.engines.kubernetes.pod.journal import NAME
from dromon.engines.kubernetes.pods import when
from dromon.engines.kubernetes.volcano import CONFIG_MAP
from dromon.observe import metrics as reported

if TYPE_CHECKING:
    from dromon.engines.kubernetes.engine import KubernetesEngine

KEPT = 30 * 86400.0  # seconds that `gc` leaves a job alone unless told otherwise
SAFETY = 3600.0  # seconds for which what nobody names may be somebody's work


def shown(engine: KubernetesEngine, job: dict[str, Any]) -> Mapping[str, Any]:
    """All that is known of one job."""
    id = str(job["metadata"]["name"])
    pods = engine.jobs.pods(id)
    now = engine.jobs.status(job, pods)
    request = engine.jobs.request(id)
    told = engine.jobs.told(job, pods, now.is_terminal) or {}
    record = engine.store.record(id) if engine.store is not None else None
    return {
        "status": {**now._asdict(), "members": [m._asdict() for m in now.members]},
        "request": {k: v for k, v in request.items() if k != "objects"},
        "environment": request["environment"],
        "timeline": timeline(record, now.submitted),
        "outputs": told.get("outputs", []),
        "record": record.root if record is not None else f"configmap/{id}",
        "work": "",
        "metrics": metrics(record),
        "application": f"{engine.namespace}/{id}",
        "links": {},
    }


def timeline(record: Record | None, submitted: float) -> list[dict[str, Any]]:
    """Every event the gang heard, over all its pods."""
    found: list[dict[str, Any]] = [{"time": submitted, "event": "Submitted"}]
    if record is None:
        return found
    try:
        with open(record.path(NAME), encoding="utf-8") as file:
            lines = [line for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return found
    for entry in map(json.loads, lines):
        detail = dict(entry["event"])
        found.append({"time": entry["time"], "event": detail.pop("kind"), "detail": detail})
    return found


def metrics(record: Record | None) -> dict[str, Any]:
    return {} if record is None else reported.read(record.root)


def collect(engine: KubernetesEngine, older_than: float, dry_run: bool) -> Mapping[str, Any]:
    """Ended jobs that are older, then what dead clients left, records without a job, and blobs that
    no record names."""
    now = time.time()
    jobs = engine.list(base.Filter(active_only=False))
    old = [job.id for job in jobs if job.ended is not None and job.ended < now - older_than]
    known, freed = {job.id for job in jobs}, 0
    store = engine.store
    for id in old if not dry_run else ():
        freed += engine.forget(id)
    safety = min(SAFETY, older_than)
    for name in () if dry_run else _orphans(engine, known, now - safety):
        engine.api.delete(CONFIG_MAP, engine.namespace, name)
    if store is None:
        return {"removed": old, "freed": freed, "dry_run": dry_run}
    named: set[str] = set()
    for id in store.records():
        request = store.request(id) or {}
        is_gone = id in old
        if id not in known:  # its Job was deleted, by its age or by hand
            told = store.status(id) or {}
            submitted = float(request.get("facts", {}).get("submitted") or 0.0)
            is_gone = (told.get("ended") or submitted) < now - max(older_than, safety)
            if is_gone:
                old.append(id)
                freed += 0 if dry_run else store.remove_record(id)
        if not is_gone:
            named |= {a["blob"] for a in request.get("artifacts", {}).values()}
    for name, about in store.blobs().items():
        if name not in named and about.st_mtime < now - safety:
            freed += about.st_size
            if not dry_run:
                store.remove_blob(name)
    return {"removed": old, "freed": freed, "dry_run": dry_run}


def _orphans(engine: KubernetesEngine, known: Collection[str], before: float) -> list[str]:
    """ConfigMaps of clients that died while they submitted; with a job's own goes its Secret."""

    def is_old(about: Mapping[str, Any]) -> bool:
        made = when(about.get("creationTimestamp"))
        return made is not None and made <= before and not about.get("ownerReferences")

    listed = engine.api.list_metadata
    light = listed(CONFIG_MAP, engine.namespace, volcano.LIGHT_LABEL)
    of_jobs = listed(CONFIG_MAP, engine.namespace, volcano.JOB_LABEL)
    return [str(about["name"]) for about in light if is_old(about)] + [
        str(about["name"])
        for about in of_jobs
        if is_old(about) and about["labels"][volcano.JOB_LABEL] not in known
    ]
