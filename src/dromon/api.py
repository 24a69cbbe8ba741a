"""Everything Dromon does, as functions. Which engine does it is found by `places`.

The command line parses, calls one function of this module and renders. Heavy rooms are imported
where they are needed, because most commands need none of them.

`on` is "local", "yarn", or a context's name. Without it a new job goes where $DROMON_ON or
`dromon context use` says, else to this machine; and a job that is named is looked for here, then
where jobs were sent from here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dromon.places as places
from dromon.engines.base import (
    Filter,
    JobStatus,
    LogLine,
    Node,
    Progress,
    Queue,
    Waiting,
    token,
)  # fmt: skip
from dromon.engines.local.engine import LocalEngine
from dromon.errors import JobFailed
from dromon.places import Accepted, accepted, engine, locate

if TYPE_CHECKING:
    from dromon.contexts.file import Context, Contexts
    from dromon.engines.place import Place
    from dromon.errors import Problem
    from dromon.packaging import payload


# ---- submitting ---------------------------------------------------------------------------------


def start(
    *,
    file: str | None = None,
    command: list[str] | str | None = None,
    overrides: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    on: str | None = None,
    python: str = "",
    supplied: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Accepted:
    """Submit a job file, or a command with no file at all. `python` is the caller's interpreter
    when that is not the one on its PATH; `supplied` are values of secrets and of null variables
    that are not in the environment; `progress` is told of what takes long."""
    import dromon.caller as caller

    request: dict[str, Any] = {
        "supplied": dict(supplied or {}),
        "overrides": list(overrides),
        "options": dict(options or {}),
        "python": python or caller.python(),
    }
    if file is not None:
        request.update(file=file, text=caller.read(file))
    else:
        request["command"] = command
    return _send(request, engine(on), progress)


def _send(request: dict[str, Any], place: Place, progress: Progress | None = None) -> Accepted:
    request = {"cwd": os.getcwd(), "environ": dict(os.environ), "token": token(), **request}
    return accepted(place, place.start(request, progress))


def run(
    target: Callable[..., Any] | str | os.PathLike[str] | Sequence[str],
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    workers: int | None = None,
    gpus: int | None = None,
    cpus: float | None = None,
    memory: str | None = None,
    framework: str | None = None,
    name: str | None = None,
    on: str | None = None,
    overrides: Sequence[str] = (),
    **keys: Any,
) -> Run:
    """Run a function, a command (list), a script or a job file (path). Further keywords are keys
    of the job file: ``config={…}``, ``retries={"max": 3}``, ``environment={"packages": […]}``."""
    resources = {"gpus": gpus, "cpus": cpus, "memory": memory}
    options = {
        "replicas": workers,
        "framework": framework,
        "name": name,
        "resources": {k: v for k, v in resources.items() if v is not None} or None,
        **keys,
    }
    options = {k: v for k, v in options.items() if v is not None}
    place = engine(on)
    if callable(target):
        return Run(_run_function(target, args, kwargs or {}, options, place), place)
    asked: dict[str, Any]
    if isinstance(target, (str, os.PathLike)) and os.fspath(target).endswith((".yaml", ".yml")):
        asked = {"file": os.fspath(target)}
    elif isinstance(target, (str, os.PathLike)):
        asked = {"command": [os.fspath(target), *map(str, args)]}
    else:
        asked = {"command": [*map(str, target), *map(str, args)]}
    taken = start(
        **asked, options=options, overrides=overrides, on=place.name, python=sys.executable
    )
    return Run(taken.id, place)


def _run_function(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: dict[str, Any],
    place: Place,
) -> str:
    from dromon.packaging import payload
    from dromon.storage.blobs import BlobStore

    shipped = payload.dump(fn, tuple(args), dict(kwargs), os.getcwd())
    options.setdefault("name", getattr(fn, "__name__", "function").strip("<>"))
    blobs = BlobStore(place.blobs)
    with blobs.pinned():
        digest = blobs.put(shipped)
        request = {
            "data": {"command": ["python"]},
            "options": options,
            "payload": {"digest": digest, "url": f"blob:{digest}", "size": len(shipped)},
            "python": sys.executable,
        }
        return _send(request, place).id


def submit(jobs: Iterable[Mapping[str, Any]], *, on: str | None = None) -> list[Run]:
    """Many jobs at once, each in the shape of the job file. All are on disk when this returns."""
    common = {"cwd": os.getcwd(), "environ": dict(os.environ), "python": sys.executable}
    requests = [{"data": dict(job), "token": token()} for job in jobs]
    place = engine(on)
    ids = place.start_many(common, requests)
    if place.name != "local":
        for id in ids:
            places.remember(place, id, id.rpartition("-")[0])
    return [Run(id, place) for id in ids]


def load(ref: str | int, *, on: str | None = None) -> Run:
    """A job submitted earlier: by number, id, name, unique prefix, or "@last"."""
    place, found = locate(str(ref), on)
    return Run(place.find(found), place)


class Run:
    """A submitted job. Every method asks anew; nothing is remembered here but its id."""

    def __init__(self, id: str, engine: Place) -> None:
        self.id = id
        self.engine = engine

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    @property
    def status(self) -> JobStatus:
        return places.named(self.engine, self.engine.status(self.id))

    def logs(self, *, follow: bool = True) -> Iterator[LogLine]:
        """Its lines from the first on; with `follow` until the job ends."""
        return self.engine.lines(self.id, follow=follow)

    def why(self) -> Waiting | None:
        return self.engine.why(self.id)

    def wait(self, timeout: float | None = None) -> JobStatus:
        """Until it ends, or TimeoutError."""
        return places.named(self.engine, self.engine.wait(self.id, timeout))

    def stop(self, grace: float | None = None) -> None:
        self.engine.stop(self.id, grace)

    def result(self, timeout: float | None = None) -> Any:
        """What rank 0 of a shipped function returned; its exception is raised here."""
        return self.results(timeout)[0]

    def results(self, timeout: float | None = None) -> list[Any]:
        """What each rank returned, in rank order; None of a command, which returns nothing."""
        from dromon.packaging import payload

        status = self.wait(timeout)
        members = sorted(
            (m for m in status.members if m.rank is not None), key=lambda m: m.rank or 0
        )
        if status.state != "succeeded":
            verdict = status.verdict or {}
            for m in members:
                if m.rank != verdict.get("rank"):
                    continue
                error = self.engine.run_file(self.id, m.member, m.run, "error")
                if error is not None:
                    raise _raised(payload.load_error(error), self.id)
            lines = "\n".join(verdict.get("last_lines", ())[-5:])
            raise JobFailed(
                f"{self.id} {status.state}: {verdict.get('message', '')}",
                hint=lines or f"dromon logs {self.id}",
            )
        paths = [self.engine.run_file(self.id, m.member, m.run, "result") for m in members]
        return [None if path is None else payload.load_result(path) for path in paths]


def _raised(raised: payload.Raised, id: str) -> BaseException:
    """The task's own exception with its traceback as a note, or one that carries its words."""
    if raised.exception is not None:
        raised.exception.add_note(f"raised in {id}:\n{raised.traceback}")
        return raised.exception
    return JobFailed(f"{id}: {raised.type}: {raised.message}", hint=raised.traceback)


# ---- asking -------------------------------------------------------------------------------------


def jobs(*, all: bool = False, limit: int | None = None, on: str | None = None) -> places.Listing:
    """Of one place when `on` names it; else of all that are used from here."""
    return places.jobs(Filter(active_only=not all, limit=limit), on)


def status(ref: str, *, on: str | None = None) -> JobStatus:
    place, ref = locate(ref, on)
    return places.named(place, place.status(ref))


def attach(ref: str, *, on: str | None = None) -> JobStatus:
    """Its status; from now on a job of a cluster is found from here without `on`."""
    place, ref = locate(ref, on)
    found = place.status(ref)
    places.remember(place, found.id, found.name)
    return places.named(place, found)


def watch(ref: str, *, on: str | None = None) -> Iterator[JobStatus]:
    place, ref = locate(ref, on)
    if place.name == "local":
        return place.watch(ref)
    return (places.named(place, each) for each in place.watch(ref))


def logs(
    ref: str,
    *,
    follow: bool = False,
    ranks: Sequence[int] | None = None,
    members: Sequence[str] | None = None,
    since: float | None = None,
    tail: int | None = None,
    all_runs: bool = False,
    on: str | None = None,
) -> Iterator[LogLine]:
    place, ref = locate(ref, on)
    return place.lines(
        ref,
        follow=follow,
        ranks=None if ranks is None else frozenset(ranks),
        members=None if members is None else frozenset(members),
        since=since,
        tail=tail,
        every_run=all_runs or follow,
    )


def why(ref: str, *, on: str | None = None) -> Waiting | None:
    place, ref = locate(ref, on)
    return place.why(ref)


def show(ref: str, *, on: str | None = None) -> dict[str, Any]:
    """Everything about a job."""
    from dromon.observe import metrics

    place, ref = locate(ref, on)
    found = place.show(ref)
    request, status = found["request"], {**found["status"], "on": place.name}
    return {
        "status": status,
        "request": request,
        "job": request["job"],
        "facts": request["facts"],
        "code": request["code"],
        "environment": found["environment"],
        "timeline": found["timeline"],
        "members": status["members"],
        "metrics": found["metrics"] if "metrics" in found else metrics.read(found["record"]),
        "outputs": found["outputs"],
        "record": found["record"],
        "work": found["work"],
        "application": found.get("application", ""),
        "links": found.get("links", {}),
    }


def nodes(on: str | None = None) -> Sequence[Node]:
    return engine(on).nodes()


def queues(on: str | None = None) -> Sequence[Queue]:
    return engine(on).queues()


def machine() -> LocalEngine:
    """This machine alone: its queues, which can be changed, its report, its history."""
    return LocalEngine()


def tend(on: str | None = None) -> Sequence[str]:
    """Help jobs on that their cluster has forgotten; what was found, in words."""
    return engine(on).tend()


def diff(a: str, b: str, *, on: str | None = None) -> list[dict[str, Any]]:
    """What differs between two jobs: their files, code, environment, and how they ended."""
    from dromon.observe.difference import difference, lines

    left, right = show(a, on=on), show(b, on=on)
    found = difference(left["job"], right["job"])
    before, after = (str((each["code"] or {}).get("digest", "")) for each in (left, right))
    if before and after and before != after:
        found += places.code_diff(before, after, [each["status"]["on"] for each in (left, right)])
    found += difference({"git": left["facts"].get("git")}, {"git": right["facts"].get("git")})
    locks = [each["environment"].get("lock", {}).get("text", "") for each in (left, right)]
    found += [{**line, "path": "environment"} for line in lines(*locks)]
    for key in ("on", "state", "attempt"):
        found += difference({key: left["status"][key]}, {key: right["status"][key]})
    found += difference(
        {"metrics": {k: v["last"] for k, v in left["metrics"].items()}},
        {"metrics": {k: v["last"] for k, v in right["metrics"].items()}},
    )
    return found


# ---- changing -----------------------------------------------------------------------------------


def stop(refs: Sequence[str], *, grace: float | None = None, on: str | None = None) -> list[str]:
    """The ids of those that were still active."""
    found = []
    for ref in refs:
        place, ref = locate(ref, on)
        found.append(place.stop_ref(ref, grace))
    return [str(each["id"]) for each in found if each["active"]]


def rerun(
    ref: str,
    *,
    overrides: Sequence[str] = (),
    supplied: Mapping[str, str] | None = None,
    on: str | None = None,
    progress: Progress | None = None,
) -> Accepted:
    """The same code, lock and config again, by digest, where it ran; only the overrides differ."""
    place, ref = locate(ref, on)
    found = place.rerun(
        ref, overrides=list(overrides), token=token(), environ=dict(os.environ),
        supplied=dict(supplied or {}), progress=progress,
    )  # fmt: skip
    return accepted(place, found)


def remove(refs: Sequence[str], *, on: str | None = None) -> list[str]:
    """All at one place at once: one that is still active there refuses the others there."""
    by_place: dict[str, tuple[Place, list[str]]] = {}
    for ref in refs:
        place, ref = locate(ref, on)
        by_place.setdefault(place.name, (place, []))[1].append(ref)
    removed: list[str] = []
    for place, each in by_place.values():
        ids = place.remove(each)
        places.forget(place, ids)
        removed += ids
    return removed


def gc(
    *, older_than: float | None = None, dry_run: bool = False, on: str | None = None
) -> dict[str, Any]:
    place = engine(on)
    found = dict(place.collect(older_than, dry_run))
    if not dry_run:
        places.forget(place, found.get("removed", ()))
    return found


# ---- without running ----------------------------------------------------------------------------


def check(file: str, overrides: Sequence[str] = ()) -> list[Problem]:
    import dromon.caller as caller
    from dromon import spec
    from dromon.errors import JobFileError

    try:
        job = spec.load_text(caller.read(file), file, overrides)
        spec.resolve(job, id="check-aaaaaa", name="check")
    except JobFileError as error:
        return error.problems
    return []


def plan(
    *,
    file: str | None = None,
    command: list[str] | str | None = None,
    overrides: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    on: Sequence[str] | None = None,
    supplied: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """The native request of each engine, and what it cannot give. Nothing is submitted."""
    import dromon.caller as caller

    request: dict[str, Any] = {
        "cwd": os.getcwd(),
        "environ": dict(os.environ),
        "token": "aaaaaa",
        "supplied": dict(supplied or {}),
        "overrides": list(overrides),
        "options": dict(options or {}),
        "python": caller.python(),
    }
    request.update({"file": file, "text": caller.read(file)} if file else {"command": command})
    plans = []
    for name in on or (None,):
        place = engine(name)
        found = dict(place.plan(request))
        if found.get("engine") == "yarn":
            found["notes"] = [*found.get("notes", ()), places.KERBEROS]
        plans.append({"on": place.name, **found})
    return plans


# ---- the daemon ---------------------------------------------------------------------------------


def daemon(
    action: str, *, stay: bool = False, fake_gpus: int = 0, alone: bool = False
) -> dict[str, Any]:
    """status, start, stop, restart. Jobs go on, whatever happens to the daemon."""
    from dromon.engines.local.control import control

    return control(LocalEngine(fake_gpus=fake_gpus, alone=alone).client, action, stay)


def daemon_log() -> str:
    """The path of the daemon's own log."""
    return LocalEngine().home.path("daemon.log")


# ---- contexts -----------------------------------------------------------------------------------


def contexts() -> Contexts:
    """Those of the user's file, and which of them is in use."""
    from dromon.contexts.file import Contexts

    return Contexts.read()


def add_context(
    name: str,
    kind: str,
    where: str,
    *,
    settings: Mapping[str, str] | None = None,
    default: bool = False,
    check: bool = True,
) -> tuple[Context, Mapping[str, Any]]:
    """Add one, or replace it; with `check` only if the place answers. What it said comes back."""
    from dromon.contexts.file import make

    context = make(name, kind, where, settings)
    said = places.engine_of(context).about() if check else {}
    contexts().put(context, default)
    return context, said


def remove_context(name: str) -> None:
    """Its jobs go on; they are only not known here any more."""
    contexts().remove(name)


def use_context(name: str) -> None:
    """Jobs go there from now on when nobody says where; "local" for this machine."""
    contexts().use(name)
