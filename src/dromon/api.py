"""Everything Dromon does, as functions: the composition root, the only module that knows engines.

The command line parses, calls one function of this module and renders. Heavy rooms are imported
where they are needed, because most commands need none of them.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dromon.engines.base import Filter, JobStatus, LogLine, Node, Waiting, token
from dromon.engines.local.engine import LocalEngine
from dromon.errors import JobFailed, UsageError

if TYPE_CHECKING:
    from dromon.errors import Problem
    from dromon.packaging import payload


class Accepted:
    """A job that is on disk and will run."""

    __slots__ = ("created", "id", "name", "notes", "number", "state")

    def __init__(
        self, id: str, number: int, name: str, state: str, created: bool, notes: Sequence[str]
    ) -> None:
        self.id = id
        self.number = number
        self.name = name
        self.state = state
        self.created = created
        self.notes = tuple(notes)


def engine(on: str = "local") -> LocalEngine:
    if on == "local":
        return LocalEngine()
    raise UsageError(f"there is no engine {on!r} in this version of Dromon", hint="Engines: local.")


# ---- submitting ---------------------------------------------------------------------------------


def start(
    *,
    file: str | None = None,
    command: "list[str] | str | None" = None,
    overrides: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    on: str = "local",
    python: str = "",
    supplied: Mapping[str, str] | None = None,
) -> Accepted:
    """Submit a job file, or a command with no file at all. `python` is the caller's interpreter
    when that is not the one on its PATH; `supplied` are values of secrets and of null variables
    that are not in the environment."""
    request: dict[str, Any] = {
        "supplied": dict(supplied or {}),
        "overrides": list(overrides),
        "options": dict(options or {}),
        "python": python or _caller_python(),
    }
    if file is not None:
        request.update(file=file, text=_read(file))
    else:
        request["command"] = command
    return _send(request, on)


def _send(request: dict[str, Any], on: str) -> Accepted:
    request = {"cwd": os.getcwd(), "environ": dict(os.environ), "token": token(), **request}
    found = engine(on).client.ask("run", request=request)
    fields = ("id", "number", "name", "state", "created", "notes")
    return Accepted(**{field: found[field] for field in fields})


def _caller_python() -> str:
    """The interpreter the caller would call `python`, not the one a tool installer gave Dromon."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        found = os.path.join(os.environ.get(variable, ""), "bin", "python")
        if os.environ.get(variable) and os.access(found, os.X_OK):
            return found
    alone = ("uv-receipt.toml", "pipx_metadata.json")
    if any(os.path.exists(os.path.join(sys.prefix, name)) for name in alone):
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            for name in ("python3", "python"):
                found = os.path.join(folder, name)
                if os.access(found, os.X_OK):
                    return found
    return sys.executable


def _read(file: str) -> str:
    limit = 1 << 20
    try:
        if os.path.isdir(file):
            raise UsageError(f"{file} is a directory", hint=f"dromon run {file}/job.yaml")
        with open(file, "rb") as source:
            raw = source.read(limit + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}", hint="`dromon init` writes one.") from None
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    if len(raw) > limit:
        size = os.path.getsize(file)
        raise UsageError(
            f"{file} has {size:,} bytes; a job file has at most {limit:,}",
            hint="Is it a data file? Put data next to the script and name it under volumes:.",
        )
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{file}:{line}: not a text file (UTF-8)",
            hint="A job file is YAML; `dromon init SCRIPT` writes one to start from.",
        ) from None


def run(
    target: "Callable[..., Any] | str | os.PathLike[str] | Sequence[str]",
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    workers: int | None = None,
    gpus: int | None = None,
    cpus: float | None = None,
    memory: str | None = None,
    framework: str | None = None,
    name: str | None = None,
    on: str = "local",
    overrides: Sequence[str] = (),
    **keys: Any,
) -> "Run":
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
    if callable(target):
        return Run(_run_function(target, args, kwargs or {}, options, on), engine(on))
    asked: dict[str, Any]
    if isinstance(target, (str, os.PathLike)) and os.fspath(target).endswith((".yaml", ".yml")):
        asked = {"file": os.fspath(target)}
    elif isinstance(target, (str, os.PathLike)):
        asked = {"command": [os.fspath(target), *map(str, args)]}
    else:
        asked = {"command": [*map(str, target), *map(str, args)]}
    taken = start(**asked, options=options, overrides=overrides, on=on, python=sys.executable)
    return Run(taken.id, engine(on))


def _run_function(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: dict[str, Any],
    on: str,
) -> str:
    from dromon.packaging import payload
    from dromon.storage.blobs import BlobStore

    shipped = payload.dump(fn, tuple(args), dict(kwargs), os.getcwd())
    options.setdefault("name", getattr(fn, "__name__", "function").strip("<>"))
    blobs = BlobStore(engine(on).home.blobs)
    with blobs.pinned():
        digest = blobs.put(shipped)
        request = {
            "data": {"command": ["python"]},
            "options": options,
            "payload": {"digest": digest, "url": f"blob:{digest}", "size": len(shipped)},
            "python": sys.executable,
        }
        return _send(request, on).id


def submit(jobs: Iterable[Mapping[str, Any]], *, on: str = "local") -> "list[Run]":
    """Many jobs at once, each in the shape of the job file. All are on disk when this returns."""
    common = {"cwd": os.getcwd(), "environ": dict(os.environ), "python": sys.executable}
    requests = [{"data": dict(job), "token": token()} for job in jobs]
    place = engine(on)
    found = place.client.ask("submit_many", common=common, requests=requests)
    return [Run(id, place) for id, _, _ in found["accepted"]]


def load(ref: str | int, *, on: str = "local") -> "Run":
    """A job submitted earlier: by number, id, name, unique prefix, or "@last"."""
    place = engine(on)
    return Run(str(place.client.ask("find", ref=str(ref))["id"]), place)


class Run:
    """A submitted job. Every method asks anew; nothing is remembered here but its id."""

    def __init__(self, id: str, engine: LocalEngine) -> None:
        self.id = id
        self.engine = engine

    def __repr__(self) -> str:
        return f"Run({self.id!r})"

    @property
    def status(self) -> JobStatus:
        return self.engine.status(self.id)

    def logs(self, *, follow: bool = True) -> Iterator[LogLine]:
        """Its lines from the first on; with `follow` until the job ends."""
        from dromon.engines.local.logs import lines

        return lines(self.engine.client, self.id, follow=follow)

    def why(self) -> Waiting | None:
        return self.engine.why(self.id)

    def wait(self, timeout: float | None = None) -> JobStatus:
        """Until it ends, or TimeoutError."""
        return self.engine.wait(self.id, timeout)

    def stop(self, grace: float | None = None) -> None:
        self.engine.stop(self.id, grace)

    def result(self, timeout: float | None = None) -> Any:
        """What rank 0 of a shipped function returned; its exception is raised here."""
        return self.results(timeout)[0]

    def results(self, timeout: float | None = None) -> "list[Any]":
        """What each rank returned, in rank order; None of a command, which returns nothing."""
        from dromon.agent.record import Record
        from dromon.packaging import payload

        status = self.wait(timeout)
        record = Record(self.engine.record(self.id))
        members = sorted(
            (m for m in status.members if m.rank is not None), key=lambda m: m.rank or 0
        )
        if status.state != "succeeded":
            verdict = status.verdict or {}
            for m in members:
                error = os.path.join(record.run(m.member, m.run), "error")
                if m.rank == verdict.get("rank") and os.path.exists(error):
                    raise _raised(payload.load_error(error), self.id)
            lines = "\n".join(verdict.get("last_lines", ())[-5:])
            raise JobFailed(
                f"{self.id} {status.state}: {verdict.get('message', '')}",
                hint=lines or f"dromon logs {self.id}",
            )
        paths = [os.path.join(record.run(m.member, m.run), "result") for m in members]
        return [payload.load_result(p) if os.path.exists(p) else None for p in paths]


def _raised(raised: "payload.Raised", id: str) -> BaseException:
    """The task's own exception with its traceback as a note, or one that carries its words."""
    if raised.exception is not None:
        raised.exception.add_note(f"raised in {id}:\n{raised.traceback}")
        return raised.exception
    return JobFailed(f"{id}: {raised.type}: {raised.message}", hint=raised.traceback)


# ---- asking -------------------------------------------------------------------------------------


def jobs(*, all: bool = False, limit: int | None = None, on: str = "local") -> Sequence[JobStatus]:
    return engine(on).list(Filter(active_only=not all, limit=limit))


def status(ref: str, *, on: str = "local") -> JobStatus:
    return engine(on).status(ref)


def watch(ref: str, *, on: str = "local") -> Iterator[JobStatus]:
    return engine(on).watch(ref)


def logs(
    ref: str,
    *,
    follow: bool = False,
    ranks: Sequence[int] | None = None,
    members: Sequence[str] | None = None,
    since: float | None = None,
    tail: int | None = None,
    all_runs: bool = False,
    on: str = "local",
) -> Iterator[LogLine]:
    from dromon.engines.local.logs import lines

    local = engine(on)
    return lines(
        local.client,
        str(local.client.ask("find", ref=ref)["id"]),
        follow=follow,
        ranks=None if ranks is None else frozenset(ranks),
        members=None if members is None else frozenset(members),
        since=since,
        tail=tail,
        every_run=all_runs or follow,
    )


def why(ref: str, *, on: str = "local") -> Waiting | None:
    return engine(on).why(ref)


def show(ref: str, *, on: str = "local") -> dict[str, Any]:
    """Everything about a job."""
    from dromon.observe import metrics

    found = engine(on).client.ask("show", ref=ref)
    request = found["request"]
    return {
        "status": found["status"],
        "request": request,
        "job": request["job"],
        "facts": request["facts"],
        "code": request["code"],
        "environment": found["environment"],
        "timeline": found["timeline"],
        "members": found["status"]["members"],
        "metrics": metrics.read(found["record"]),
        "outputs": found["outputs"],
        "record": found["record"],
        "work": found["work"],
    }


def nodes(on: str = "local") -> Sequence[Node]:
    return engine(on).nodes()


def diff(a: str, b: str, *, on: str = "local") -> "list[dict[str, Any]]":
    """What differs between two jobs: their files, code, environment, and how they ended."""
    from dromon.observe.difference import difference, lines
    from dromon.packaging import snapshot
    from dromon.storage.blobs import BlobStore

    left, right = show(a, on=on), show(b, on=on)
    found = difference(left["job"], right["job"])
    before, after = (str((each["code"] or {}).get("digest", "")) for each in (left, right))
    if before and after and before != after:
        blobs = BlobStore(engine(on).home.blobs)
        for path, change in snapshot.diff(before, after, blobs):
            found.append({"path": f"code: {path}", "a": None, "b": change})
    found += difference({"git": left["facts"].get("git")}, {"git": right["facts"].get("git")})
    locks = [each["environment"].get("lock", {}).get("text", "") for each in (left, right)]
    found += [{**line, "path": "environment"} for line in lines(*locks)]
    for key in ("state", "attempt"):
        found += difference({key: left["status"][key]}, {key: right["status"][key]})
    found += difference(
        {"metrics": {k: v["last"] for k, v in left["metrics"].items()}},
        {"metrics": {k: v["last"] for k, v in right["metrics"].items()}},
    )
    return found


# ---- changing -----------------------------------------------------------------------------------


def stop(refs: Sequence[str], *, grace: float | None = None, on: str = "local") -> "list[str]":
    """The ids of those that were still active."""
    client = engine(on).client
    found = [client.ask("stop", ref=ref, grace=grace) for ref in refs]
    return [str(each["id"]) for each in found if each["active"]]


def rerun(
    ref: str,
    *,
    overrides: Sequence[str] = (),
    supplied: Mapping[str, str] | None = None,
    on: str = "local",
) -> Accepted:
    """The same code, lock and config again, by digest; only the overrides differ."""
    found = engine(on).client.ask(
        "rerun", ref=ref, overrides=list(overrides), token=token(), environ=dict(os.environ),
        supplied=dict(supplied or {}),
    )  # fmt: skip
    fields = ("id", "number", "name", "state", "created", "notes")
    return Accepted(**{field: found[field] for field in fields})


def remove(refs: Sequence[str], *, on: str = "local") -> "list[str]":
    return [str(id) for id in engine(on).client.ask("remove", refs=list(refs))["removed"]]


def gc(
    *, older_than: float | None = None, dry_run: bool = False, on: str = "local"
) -> dict[str, Any]:
    return engine(on).client.ask("gc", older_than=older_than, dry_run=dry_run)


# ---- without running ----------------------------------------------------------------------------


def check(file: str, overrides: Sequence[str] = ()) -> "list[Problem]":
    from dromon import spec
    from dromon.errors import JobFileError

    try:
        job = spec.load_text(_read(file), file, overrides)
        spec.resolve(job, id="check-aaaaaa", name="check")
    except JobFileError as error:
        return error.problems
    return []


def plan(
    *,
    file: str | None = None,
    command: "list[str] | str | None" = None,
    overrides: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    on: Sequence[str] = ("local",),
    supplied: Mapping[str, str] | None = None,
) -> "list[dict[str, Any]]":
    """The native request of each engine, and what it cannot give. Nothing is submitted."""
    plans = []
    for name in on:
        local = engine(name)
        request: dict[str, Any] = {
            "cwd": os.getcwd(),
            "environ": dict(os.environ),
            "token": "aaaaaa",
            "supplied": dict(supplied or {}),
            "overrides": list(overrides),
            "options": dict(options or {}),
            "python": _caller_python(),
        }
        request.update({"file": file, "text": _read(file)} if file else {"command": command})
        plans.append(local.client.ask("plan", request=request)["plan"])
    return plans


# ---- the daemon ---------------------------------------------------------------------------------


def daemon(action: str, *, stay: bool = False, fake_gpus: int = 0) -> dict[str, Any]:
    """status, start, stop, restart. Jobs go on, whatever happens to the daemon."""
    client = LocalEngine(fake_gpus=fake_gpus).client
    if action == "start":
        client.connect().close()
        if stay:
            client.ask("daemon_stay", stay=True)
        return client.ask("daemon_status")
    if action == "status":
        return client.ask_running("daemon_status") or {"running": False}
    if action in ("stop", "restart"):
        found = client.ask_running("daemon_stop")
        if found is not None:
            client.wait_gone(int(found["pid"]))
        if action == "restart":
            client.start(stay or bool(found and found["stay"]))
            return client.ask("daemon_status")
        return {"running": False, "stopped": found is not None}
    raise UsageError(f"daemon cannot {action}", hint="daemon status|start|stop|restart|logs")


def daemon_log() -> str:
    """The path of the daemon's own log."""
    return engine().home.path("daemon.log")
