"""Which engine answers: what `--on` names, where a job is when nobody says, and all at once.

The only module that knows engines. This machine comes first and costs no more than if there were
nothing else; clusters are looked for only where they were used from here, or are named.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dromon.contexts import in_use
from dromon.engines.base import Filter, JobStatus
from dromon.engines.local.engine import LocalEngine
from dromon.errors import AmbiguousJob, DromonError, EngineError, JobNotFound

if TYPE_CHECKING:
    from dromon.contexts.file import Context
    from dromon.contexts.recent import Known, Recent
    from dromon.engines.place import Place

PATIENCE = 5.0  # seconds that a list of jobs waits for a place to answer
KERBEROS = "a cluster that asks for Kerberos is not proven to work yet"
USED = 7 * 86400.0  # a context from which nothing was started for longer is not asked unnamed


def _yarn(context: Context) -> Place:
    from dromon.engines.yarn.engine import YarnEngine

    place: Place = YarnEngine(context)
    return place


def _kubernetes(context: Context) -> Place:
    from dromon.engines.kubernetes.engine import KubernetesEngine

    place: Place = KubernetesEngine(context)
    return place


# kind of context -> the engine for it.
ENGINES: dict[str, Callable[[Context], Place]] = {"yarn": _yarn, "kubernetes": _kubernetes}
SHARED = {"kubernetes"}  # their engines may be used by several threads at once
_kept: dict[str, Place] = {}


def engine(on: str | None = None, *, keep: bool = False) -> Place:
    """The engine `on` names; without it $DROMON_ON, else the context in use, else this machine.
    `keep` as in `engine_of`."""
    if on is None:
        on = os.environ.get("DROMON_ON") or in_use() or "local"
    if on == "local":
        return LocalEngine()
    from dromon.contexts.file import resolve

    return engine_of(resolve(on), keep=keep)


def engine_of(context: Context, *, keep: bool = False) -> Place:
    """$DROMON_AS beats whom the context acts as. `keep`: the same as last time, for whoever lists
    jobs again and again: it has its connections, and what it watches need not be asked for."""
    if context.kind == "local":
        return LocalEngine()
    user = os.environ.get("DROMON_AS")
    context = context._replace(user=user) if user else context
    if not keep or context.kind not in SHARED:
        return ENGINES[context.kind](context)
    key = repr((context, os.environ.get("KUBECONFIG"), LocalEngine().home.root))
    if key not in _kept:
        _kept[key] = ENGINES[context.kind](context)
    return _kept[key]


def locate(ref: str, on: str | None = None) -> tuple[Place, str]:
    """Where a job is, and its id; of this machine's the reference as it is, which its daemon finds.

    A job of this machine comes first, then those of clusters that were seen from here, then
    whatever the context in use knows.
    """
    on = on or os.environ.get("DROMON_ON") or None
    if on is not None:
        place = engine(on)
        return place, ref if place.name == "local" else place.find(ref)
    local, recent = LocalEngine(), _recent()
    default = in_use()
    if recent is None and not default:
        return local, ref  # as if there were no clusters at all
    if recent is not None:
        if (known := recent.by_id(ref)) is not None:
            return _place_of(known), known.id
        if ref.startswith("@") and (found := _last(ref, local, recent)) is not None:
            return found
    missing: DromonError
    try:
        id = local.find(ref)
        if recent is None or ref in (id, id.rpartition("-")[0]) or ref.isdecimal():
            return local, id
    except (JobNotFound, EngineError) as error:
        id, missing = "", error
    except AmbiguousJob:  # first letters of several, and perhaps a name of another
        if recent is None or (known := recent.named(ref)) is None:
            raise
        return _place_of(known), known.id
    known = recent.find(ref) if recent is not None else None
    if id and known is not None and ref not in (known.name, known.application):
        raise AmbiguousJob(f"{ref!r} could be any of {id}, {known.id} (on {known.context})")
    if known is not None:
        return _place_of(known), known.id
    if id:
        return local, id
    if default:
        place = engine(default)
        try:
            return place, place.find(ref)
        except JobNotFound:
            pass
    if isinstance(missing, JobNotFound):
        hint = "`dromon ps -a` lists jobs; --on NAME asks the cluster of that context."
        raise JobNotFound(missing.message, hint=hint)
    raise missing


def _last(ref: str, local: LocalEngine, recent: Recent) -> tuple[Place, str] | None:
    """What "@last" or "@last~N" means among the jobs of this machine and those seen from it."""
    steps = "0" if ref == "@last" else ref.removeprefix("@last~")
    if not steps.isdecimal() or len(steps) > 6:
        return None
    back = int(steps)
    try:
        here = local.list(Filter(active_only=False, limit=back + 1))
    except EngineError:
        here = []
    seen: list[tuple[float, Known | str]] = [(status.submitted, status.id) for status in here]
    seen += [(known.time, known) for known in recent.entries()]
    seen.sort(key=lambda each: each[0])
    if back >= len(seen):
        return None
    known = seen[-1 - back][1]
    return (local, known) if isinstance(known, str) else (_place_of(known), known.id)


def _place_of(known: Known, *, keep: bool = False) -> Place:
    from dromon.contexts.file import Contexts

    file = Contexts.read()
    if known.context in file.by_name:
        return engine_of(file.by_name[known.context], keep=keep)
    if known.unnamed is not None:
        return engine_of(known.unnamed, keep=keep)
    raise JobNotFound(
        f"{known.id} is in the context {known.context!r}, which is gone",
        hint=f"`dromon context add {known.context} …` brings it back.",
    )


def _recent() -> Recent | None:
    """None where no cluster was ever used from here; then nothing of it is even imported."""
    path = recent_path()
    if not os.path.exists(path):
        return None
    from dromon.contexts.recent import Recent

    return Recent(path)


def recent_path() -> str:
    return LocalEngine().home.path("recent.jsonl")


def remember(place: Place, id: str, name: str, application: str = "") -> bool:
    """Note a job of a cluster, so that it is found without --on; whether that was possible."""
    if place.name == "local":
        return True
    from dromon.contexts.file import Contexts, resolve
    from dromon.contexts.recent import Known, Recent

    kind = where = ""
    if place.name not in Contexts.read().by_name:
        context = resolve(place.name)
        kind, where = context.kind, context.where
    known = Known(id, place.name, name, time.time(), application, kind, where)
    return Recent(recent_path()).add(known)


def forget(place: Place, ids: Iterable[str]) -> None:
    if place.name != "local" and (recent := _recent()) is not None:
        recent.forget(set(ids))


# ---- taken in ----------------------------------------------------------------------------------


class Accepted:
    """A job that is on record and will run. `links` are the engine's own pages about it;
    `is_known`: it is found from here without --on."""

    __slots__ = (
        "application", "created", "id", "is_known", "links", "name", "notes", "number", "on",
        "state",
    )  # fmt: skip

    def __init__(self, found: Mapping[str, Any], on: str, is_known: bool) -> None:
        self.id = str(found["id"])
        self.number = int(found["number"])
        self.name = str(found["name"])
        self.state = str(found["state"])
        self.created = bool(found["created"])
        self.notes = tuple(found["notes"])
        self.application = str(found.get("application", ""))
        self.links: Mapping[str, str] = found.get("links", {})
        self.on = on
        self.is_known = is_known


def accepted(place: Place, found: Mapping[str, Any]) -> Accepted:
    application = str(found.get("application", ""))
    is_known = remember(place, str(found["id"]), str(found["name"]), application)
    return Accepted(found, place.name, is_known)


# ---- all of them --------------------------------------------------------------------------------


class Listing(list[JobStatus]):
    """Jobs, oldest first; `silent` says who did not answer, and in which words."""

    def __init__(self, jobs: Iterable[JobStatus] = (), silent: dict[str, str] | None = None):
        super().__init__(jobs)
        self.silent = silent or {}


def named(place: Place, status: JobStatus) -> JobStatus:
    return status if place.name == "local" else status._replace(on=place.name)


def jobs(where: Filter, on: str | None = None) -> Listing:
    """Of one place when it is named; else of this machine and of the clusters used from here."""
    on = on or os.environ.get("DROMON_ON") or None
    if on is not None:
        place = engine(on, keep=True)
        return Listing(named(place, status) for status in place.list(where))
    others = _others()
    if not others:
        return Listing(LocalEngine().list(where))
    found, silent = _ask_all({"local": LocalEngine, **others}, where)
    if not found:
        raise EngineError("; ".join(f"{name}: {words}" for name, words in silent.items()))
    every = sorted((s for each in found for s in each), key=lambda status: status.submitted)
    return Listing(every if where.limit is None else every[-where.limit :], silent)


def _others() -> dict[str, Callable[[], Place]]:
    recent, default = _recent(), in_use()
    found: dict[str, Callable[[], Place]] = {}
    for name, known in (recent.contexts(USED) if recent is not None else {}).items():
        found[name] = lambda known=known: _place_of(known, keep=True)  # type: ignore[misc]
    if default:
        found.setdefault(default, lambda: engine(default, keep=True))
    return found


def _ask_all(
    places: dict[str, Callable[[], Place]], where: Filter
) -> tuple[list[list[JobStatus]], dict[str, str]]:
    import threading

    found: dict[str, list[JobStatus]] = {}
    silent = dict.fromkeys(places, f"no answer within {PATIENCE:.0f} s")

    def ask(name: str, make: Callable[[], Place]) -> None:
        try:
            place = make()
            found[name] = [named(place, status) for status in place.list(where)]
        except DromonError as error:
            silent[name] = error.message

    # Daemons: one that never answers must not keep the command from ending.
    threads = [threading.Thread(target=ask, args=each, daemon=True) for each in places.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    answered = dict(found)  # whoever answers from now on is too late
    return [*answered.values()], {n: words for n, words in silent.items() if n not in answered}


def code_diff(before: str, after: str, on: list[str]) -> list[dict[str, Any]]:
    """File by file where both snapshots are on this machine; a job of a cluster may have been
    submitted from another, and then only the digests are known."""
    from dromon.errors import PackagingError
    from dromon.packaging import snapshot
    from dromon.storage.blobs import BlobStore

    for name in dict.fromkeys(on):
        blobs = BlobStore(engine(name).blobs)
        try:
            changes = list(snapshot.diff(before, after, blobs))
        except PackagingError:
            continue
        return [{"path": f"code: {path}", "a": None, "b": change} for path, change in changes]
    return [{"path": "code", "a": before, "b": after}]
