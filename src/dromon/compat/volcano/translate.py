"""A Volcano Job, or a plain one, as a job file: text in, text out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dromon.compat.volcano import commands, meaning, naming
from dromon.compat.volcano.amounts import span
from dromon.compat.volcano.hatch import hatch, job_hatch
from dromon.compat.volcano.pods import Task, read_task
from dromon.compat.volcano.policies import policies
from dromon.compat.volcano.roles import mpi_role, roles
from dromon.compat.volcano.source import PLAIN, VOLCANO, Note, Source, find_job
from dromon.compat.volcano.volumes import Volumes
from dromon.compat.volcano.writing import written
from dromon.errors import JobFileError, Problem
from dromon.spec import load_text
from dromon.spec.names import NAME_LIMIT
from dromon.spec.path import Path

RETRIES = {VOLCANO: 3, PLAIN: 6}  # where the object says nothing
RESTARTS = ("restart_job", "restart_role", "restart_member")
TASK_KEYS = ("name", "replicas", "minAvailable", "template", "policies", "maxRetry")


@dataclass(frozen=True, slots=True)
class Imported:
    """The job file, what is not in it as it was, and what must be written by hand yet."""

    text: str
    notes: tuple[Note, ...]
    problems: tuple[Problem, ...]


def import_job(text: str | bytes, file: str) -> Imported:
    """Raises JobFileError where there is nothing to import, or what is there cannot be read."""
    source = find_job(text, file)
    volumes = Volumes(source)
    tasks = _tasks(source, volumes)
    job = _job(source, tasks, volumes)
    notes = tuple(sorted(source.notes, key=lambda note: (note.line, note.column)))
    made = written(job, notes, file)
    try:
        load_text(made, file)
    except JobFileError as error:
        return Imported(made, notes, tuple(error.problems))
    return Imported(made, notes, ())


def _tasks(source: Source, volumes: Volumes) -> list[Task]:
    if source.kind == PLAIN:
        task = Task("worker", source.root, _pods(source), None)
        template = source.mapping(source.spec, "template", source.root)
        read_task(source, task, template, (*source.root, "template"), volumes)
        return [task]
    tasks = []
    for at, each in enumerate(source.items(source.spec, "tasks", source.root)):
        path: Path = (*source.root, "tasks", at)
        name = str(each.get("name") or f"task-{at}")
        replicas = source.whole(each, "replicas", path)
        if replicas == 0:
            source.note((*path, "replicas"), f"{name} has no pods: left out")
            continue
        least = source.whole(each, "minAvailable", path)
        task = Task(name, path, replicas or 1, least)
        task.policies = policies(source, each, path)
        template = source.mapping(each, "template", path)
        read_task(source, task, template, (*path, "template"), volumes)
        for key in each:
            if key == "dependsOn":
                source.note((*path, key), "all roles of a job start together: left out")
            elif key not in TASK_KEYS and key not in ("topologyPolicy", "partitionPolicy"):
                source.note((*path, key), "left out")
        tasks.append(task)
    if not tasks:
        raise source.wrong((*source.root, "tasks"), "a Job without tasks", "is the file cut off?")
    names = [task.name for task in tasks]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise source.wrong((*source.root, "tasks"), f"there are two tasks named {twice}",
                           "Volcano refuses this too: rename one")  # fmt: skip
    return tasks


def _pods(source: Source) -> int:
    """How many pods a plain Job runs, all at once here."""
    parallel = source.whole(source.spec, "parallelism", source.root)
    wanted = source.whole(source.spec, "completions", source.root)
    if wanted is not None and wanted > (parallel or 1):
        source.note((*source.root, "completions"), f"{wanted} pods ran {parallel or 1} at a time: "
                    "as members they run all at once")  # fmt: skip
    return max(1, wanted if wanted is not None else parallel or 1)


def _job(source: Source, tasks: list[Task], volumes: Volumes) -> dict[str, Any]:
    plugins = source.mapping(source.spec, "plugins", source.root)
    framework = _framework(source, plugins, tasks)
    names = meaning.role_names(source, framework, plugins, tasks)
    for task in tasks:
        meaning.without_the_frameworks(source, task)
    if framework == "mpi":
        found = mpi_role(source, tasks)
        tasks, names = [found], {found.name: "worker"}
    if framework == "tensorflow":
        for task in tasks:
            bare = commands.without_config(task.words or [])
            if bare != (task.words or []):
                task.words = bare
                source.note(task.path, "Dromon sets TF_CONFIG: the lines that made it are left out",
                            at_key=False)  # fmt: skip
    renamed = {old: new for old, new in names.items() if old != new}
    for old, new in renamed.items():
        source.note(tasks[0].path, f"the task {old} is the role {new}", at_key=False)
    job: dict[str, Any] = {"name": _name(source), "framework": framework}
    spec = source.spec
    if spec.get("queue"):
        job["queue"] = str(spec["queue"])
    if priority := _priority(source, tasks):
        job["priority"] = priority
    if _said(source, tasks).get("volcano.sh/preemptable") == "false":
        job["preemptible"] = False
    limits = [t.deadline for t in tasks if t.deadline]
    if source.kind == PLAIN and (own := source.whole(spec, "activeDeadlineSeconds", source.root)):
        limits.append(own)
    if limits:
        job["max_duration"] = span(min(limits))
    if graces := [task.grace for task in tasks if task.grace is not None]:
        job["stop_grace"] = span(max(graces))
    job |= roles(source, tasks, names, volumes, framework)
    own_policies = policies(source, spec, source.root) if source.kind == VOLCANO else {}
    if own_policies:
        job["policies"] = own_policies
    if retries := _retries(source, {**own_policies, **{k: v for t in tasks for k, v in
                                                      t.policies.items()}}):  # fmt: skip
        job["retries"] = {"max": retries}
    kubernetes = hatch(source, tasks, names)
    if more := job_hatch(source, plugins):
        kubernetes["job"] = more
    if kubernetes:
        job["kubernetes"] = kubernetes
    return job


def _framework(source: Source, plugins: Mapping[str, Any], tasks: list[Task]) -> str:
    found = meaning.framework(plugins, tasks)
    if found == "mpi" and meaning.mpi_task(source, tasks) is None:
        source.note(source.root, "which task calls mpirun is not clear: no framework is set",
                    at_key=False)  # fmt: skip
        return "none"
    if found in ("mxnet", "tensorflow") and not meaning.role_names(source, found, plugins, tasks):
        source.note((*source.root, "tasks"), f"the tasks are no roles of {found}: no framework is "
                    "set")  # fmt: skip
        return "none"
    return found


def _name(source: Source) -> str:
    metadata = source.mapping(source.object.data, "metadata", ())
    given = str(metadata.get("name") or metadata.get("generateName") or "job")
    ours = naming.label(given, NAME_LIMIT, "job")
    if ours != given.rstrip("-"):
        source.note(("metadata", "name"), f"a job's name has at most {NAME_LIMIT} characters, a "
                    f"letter first: {ours}")  # fmt: skip
    if metadata.get("namespace"):
        source.note(("metadata", "namespace"), "the namespace is the context's: left out")
    return ours


def _said(source: Source, tasks: list[Task]) -> dict[str, str]:
    """Annotations of the job, and of its pods."""
    metadata = source.mapping(source.object.data, "metadata", ())
    own = source.mapping(metadata, "annotations", ("metadata",))
    found = {key: value for task in tasks for key, value in task.annotations.items()}
    return {**found, **{str(key): str(value) for key, value in own.items()}}


def _priority(source: Source, tasks: list[Task]) -> str:
    own = str(source.spec.get("priorityClassName") or "")
    given = [own] if own else []
    given += [task.priority for task in tasks if task.priority]
    if len(set(given)) > 1:
        source.note((*source.root, "priorityClassName"), f"a job has one priority: {given[0]}")
    return given[0] if given else ""


def _retries(source: Source, known: Mapping[str, str]) -> int:
    """Nothing where nothing was ever started again."""
    key = "backoffLimit" if source.kind == PLAIN else "maxRetry"
    given = source.whole(source.spec, key, source.root)
    if source.kind == VOLCANO and not any(action in RESTARTS for action in known.values()):
        return 0
    return RETRIES[source.kind] if given is None else min(given, 1_000_000)
