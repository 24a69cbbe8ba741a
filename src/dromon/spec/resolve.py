"""A job with its placeholders filled in. Pure: the id, the name and the paths are arguments."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dromon.errors import JobFileError, Problem
from dromon.spec.interpolate import FACTS, Filler
from dromon.spec.model import Job, Role
from dromon.spec.names import path_problem
from dromon.spec.path import Path
from dromon.spec.sentences import Wrong


def resolve(job: Job, *, id: str, name: str, volumes: Mapping[str, str] | None = None) -> Job:
    """Commands, variables, sources, outputs and config with `${…}` filled in.

    With no `volumes`, `${volumes.…}` stays: a cluster fills it in on the node.
    """
    if not has_placeholders(job):
        return job.model_copy(update={"name": name})
    filler = _filler(job, id, name, volumes)
    filled = _filled(job, filler).model_copy(update={"name": name})
    if filler.unfilled:
        raise JobFileError(
            [Problem(name, 0, 0, "", bad.text, bad.suggestion) for bad in filler.unfilled]
        )
    return filled


def has_placeholders(job: Job) -> bool:
    return any("${" in text for _, text in texts(job))


def texts(job: Job) -> Iterator[tuple[Path, str]]:
    """Every text that may hold a placeholder, with its path."""
    for role_name, role in job.roles.items():
        path = ("roles", role_name)
        if isinstance(role.command, str):
            yield (*path, "command"), role.command
        elif role.command:
            for at, word in enumerate(role.command):
                yield (*path, "command", at), word
        if role.env:
            yield from _values(role.env, (*path, "env"))
    if job.env:
        yield from _values(job.env, ("env",))
    for volume_name, volume in job.volumes.items():
        yield ("volumes", volume_name, "source"), volume.source
    for at, output in enumerate(job.outputs):
        yield ("outputs", at), output
    if job.tensorboard:
        yield ("tensorboard",), job.tensorboard
    if job.config:
        yield from _leaves(job.config, ("config",))


def unfillable(job: Job) -> Iterator[Wrong]:
    """What `resolve` would stumble over, with the paths: for the check of a file."""
    loops: set[frozenset[Path]] = set()
    filler = _filler(job, "id", job.name or "name", None)
    for path, text in texts(job):
        if "${" not in text:
            continue
        filler.unfilled.clear()
        filled = filler.leaf(text, path[1:]) if path[0] == "config" else filler.text(text)
        for bad in filler.unfilled:
            # One circle is met from each of its keys.
            if not bad.loop or bad.loop not in loops:
                yield Wrong(path, bad.text, bad.suggestion, about=(bad.about,) if bad.about else ())
            loops.add(bad.loop)
            if bad.is_limit:
                return
        if not filler.unfilled and path[0] in ("volumes", "outputs", "tensorboard"):
            problem = "" if path[0] == "volumes" else path_problem(filled)
            if "${volumes." in filled:
                problem = "cannot hold the path of a volume"
            if problem:
                yield Wrong(path, problem)


def _filler(job: Job, id: str, name: str, volumes: Mapping[str, str] | None) -> Filler:
    known = (id, name, job.queue, job.framework, str(job.priority))
    facts = dict(zip(FACTS, known, strict=True))
    return Filler(job.config, facts, volumes, frozenset(job.volumes))


def _filled(job: Job, filler: Filler) -> Job:
    def each(values: Mapping[str, str | None]) -> dict[str, str | None]:
        return {key: text and filler.text(text) for key, text in values.items()}

    return job.model_copy(
        update={
            "roles": {name: _filled_role(role, filler, each) for name, role in job.roles.items()},
            "env": each(job.env),
            "volumes": {
                name: volume.model_copy(update={"source": filler.text(volume.source)})
                for name, volume in job.volumes.items()
            },
            "outputs": [filler.text(output) for output in job.outputs],
            "tensorboard": job.tensorboard and filler.text(job.tensorboard),
            "config": filler.tree(job.config),
        }
    )


def _filled_role(role: Role, filler: Filler, each: Callable[..., dict[str, str | None]]) -> Role:
    command = role.command
    if isinstance(command, str):
        command = filler.text(command)
    elif command:
        command = [filler.text(word) for word in command]
    return role.model_copy(update={"command": command, "env": each(role.env)})


def _values(values: Mapping[str, str | None], path: Path) -> Iterator[tuple[Path, str]]:
    for key, text in values.items():
        if text:
            yield (*path, key), text


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _leaves(item, (*path, at))
