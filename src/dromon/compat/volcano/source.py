"""The one job of a file: found among the other objects, and brought into one shape."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dromon.clusters.objects import Object, read_objects
from dromon.engines.kubernetes.volcano import JOB, PLAIN_JOB
from dromon.errors import JobFileError, Problem
from dromon.spec.path import Path, shown
from dromon.spec.words import told

VOLCANO, PLAIN = "volcano", "plain"
FLOW_GROUP = "flow.volcano.sh"
# Kinds that hold jobs in a way of their own, and what to do about them.
HOLDERS = {
    "Workflow": "copy the Job that stands under `manifest:` of its template into a file",
    "JobFlow": "its jobs are JobTemplates: import each of them",
    "RayCluster": "a Ray cluster is no job; run its head and workers as roles of a job file",
    "RayJob": "write its entrypoint as the command of a job file",
    "Deployment": "it never ends; Dromon runs jobs that do",
    "Pod": "put it under `template:` of a Job",
    "CronJob": "",
}


@dataclass(frozen=True, slots=True)
class Note:
    """Something of the source that is not in the job file as it was."""

    file: str
    line: int
    column: int
    path: str
    text: str

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{self.file}:{self.line}:{self.column}: {where}{self.text}"


@dataclass(slots=True)
class Source:
    """A job to be imported; `note` collects what is lost."""

    object: Object
    kind: str
    spec: Mapping[str, Any]
    root: Path  # of the spec
    notes: list[Note] = field(default_factory=list)

    def note(self, path: Path, text: str, *, at_key: bool = True) -> None:
        line, column = self.object.place(*path, at_key=at_key)
        note = Note(self.object.file, line, column, shown(path), text)
        if note not in self.notes:
            self.notes.append(note)

    def wrong(self, path: Path, text: str, suggestion: str = "") -> JobFileError:
        line, column = self.object.place(*path)
        problem = Problem(self.object.file, line, column, shown(path), text, suggestion)
        return JobFileError([problem], hint="")

    def mapping(self, holder: Mapping[str, Any], key: str, path: Path) -> Mapping[str, Any]:
        """What stands at this key; nothing is an empty mapping."""
        value = holder.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.wrong((*path, key), f"expected a mapping, got {told(value)}")
        return value

    def items(self, holder: Mapping[str, Any], key: str, path: Path) -> list[Mapping[str, Any]]:
        """The mappings of a list; nothing is an empty list."""
        value = holder.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong((*path, key), f"expected a list, got {told(value)}")
        for at, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.wrong((*path, key, at), f"expected a mapping, got {told(item)}")
        return value

    def whole(self, holder: Mapping[str, Any], key: str, path: Path) -> int | None:
        value = holder.get(key)
        if value is not None and (type(value) is not int or value < 0):
            raise self.wrong((*path, key), f"expected a whole number, got {told(value)}")
        return value


def find_job(text: str | bytes, file: str) -> Source:
    """Raises JobFileError where there is no job, or more than one."""
    objects = read_objects(text, file)
    jobs = [found for each in objects if (found := _job(each)) is not None]
    if not jobs:
        raise JobFileError(_none(objects, file), hint="")
    if len(jobs) > 1:
        raise JobFileError(
            [
                Problem(file, *job.object.place("kind", at_key=True), "",
                        f"the job {job.object.name or at + 1} starts here",
                        "one job per file: move the others into files of their own" if at else "")
                for at, job in enumerate(jobs)
            ],
            hint="",
        )  # fmt: skip
    (job,) = jobs
    for each in objects:
        if each is not job.object:
            what = f"the {each.kind} {each.name}".rstrip() if each.kind else "this document"
            job.notes.append(
                Note(file, *each.place(), "", f"{what} is not a job: apply it by itself")
            )
    return job


def _job(each: Object) -> Source | None:
    root: tuple[str, ...] = ("spec",)
    kind = ""
    if (each.kind, each.group) in (("Job", JOB.group), ("JobTemplate", FLOW_GROUP)):
        kind = VOLCANO
    elif each.kind == "Job" and each.group == PLAIN_JOB.group:
        kind = PLAIN
    elif each.kind == "CronJob" and each.group in (JOB.group, PLAIN_JOB.group):
        kind = VOLCANO if each.group == JOB.group else PLAIN
        root = ("spec", "jobTemplate", "spec")
    if not kind:
        return None
    source = Source(each, kind, {}, root)
    spec: Mapping[str, Any] = each.data
    for at, key in enumerate(root):
        spec = source.mapping(spec, key, root[:at])
    if not spec:
        raise source.wrong((), "a Job without a spec", "is the file cut off?")
    source.spec = spec
    if each.kind == "CronJob":
        source.note(("spec", "schedule"), "a job file runs once: the schedule is left out")
    return source


def _none(objects: list[Object], file: str) -> list[Problem]:
    if not objects:
        return [Problem(file, 1, 1, "", "is empty", "name a file with a Volcano Job")]
    problems = []
    for each in objects:
        place = each.place("kind", at_key=True)
        if not each.kind:
            hint = "a Volcano Job begins with apiVersion: batch.volcano.sh/v1alpha1, kind: Job"
            problems.append(Problem(file, *place, "", "is no object of Kubernetes", hint))
            continue
        what = f"{each.kind} of {each.group or 'v1'}"
        hint = HOLDERS.get(each.kind) or "Volcano Jobs and plain Jobs can be imported"
        problems.append(Problem(file, *place, "kind", f"a {what} is no Job", hint))
    return problems
