"""What spans several keys of a job, and what only the frameworks know. Each rule: job -> problems.

A rule names in `about` the further paths it judged by, so that a job whose `replicas` is no number
is not also told that `min` is more than its default.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from dromon import frameworks
from dromon.spec.interpolate import MOST
from dromon.spec.keys import ROLE
from dromon.spec.model import Job
from dromon.spec.path import Path
from dromon.spec.resolve import texts, unfillable
from dromon.spec.sentences import Wrong
from dromon.spec.words import choice, nearest

SOURCES = ("packages", "requirements", "lock", "pyproject", "image")

# Libraries people name for the framework they are built on.
BUILT_ON = {
    "pytorch": "torch", "lightning": "torch", "accelerate": "torch", "deepspeed": "torch",
    "tf": "tensorflow", "keras": "tensorflow", "flax": "jax", "openmpi": "mpi", "mpi4py": "mpi",
    "gluon": "mxnet", "hvd": "horovod",
}  # fmt: skip


def known_framework(job: Job) -> Iterator[Wrong]:
    if job.framework not in frameworks.ROLES:
        meant = BUILT_ON.get(job.framework.lower())
        known = tuple(frameworks.ROLES)
        hint = f"did you mean {meant}?" if meant else choice(job.framework, known)
        yield Wrong(("framework",), f"unknown framework {job.framework!r}", hint)


def roles_of_the_framework(job: Job) -> Iterator[Wrong]:
    allowed = frameworks.ROLES.get(job.framework)
    if not job.roles:
        yield Wrong(("roles",), "a job needs at least one role", f"write roles: {{{ROLE}: …}}")
    if allowed is None:
        return
    for name in job.roles:
        if name not in allowed:
            yield Wrong(
                ("roles", name), f"{job.framework} has no role {name!r}",
                nearest(name, sorted(allowed)) or f"it knows {', '.join(sorted(allowed))}",
                at_key=True, about=(("framework",),),
            )  # fmt: skip


def every_role_has_a_command(job: Job) -> Iterator[Wrong]:
    for name, role in job.roles.items():
        if role.command is None:
            path = ("roles", name, "command")
            hint = "write for example command: python train.py"
            yield Wrong(path, "missing", hint, at_key=True, about=(("framework",),))


def gang_no_larger_than_the_role(job: Job) -> Iterator[Wrong]:
    for name, role in job.roles.items():
        if role.min > role.replicas:
            path = ("roles", name)
            yield Wrong(
                (*path, "min"), f"min {role.min} is more than replicas {role.replicas}",
                about=((*path, "replicas"),),
            )  # fmt: skip


def total_gpus_alone(job: Job) -> Iterator[Wrong]:
    if job.total_gpus is None:
        return
    implied = frameworks.IMPLIED.get(job.framework, {})
    chosen = [name for name in job.roles if name not in implied]
    if len(chosen) > 1:
        yield Wrong(("total_gpus",), f"needs a job of one role, this one has {len(chosen)}",
                    "write replicas and gpus for each role", about=(("roles",),))  # fmt: skip
    for name in chosen:
        role, path = job.roles[name], ("roles", name)
        if "replicas" in role.model_fields_set:
            yield Wrong((*path, "replicas"), "cannot stand beside total_gpus", "keep one of them",
                        at_key=True)  # fmt: skip
        if "gpus" in role.resources.model_fields_set:
            yield Wrong((*path, "resources", "gpus"), "cannot stand beside total_gpus",
                        "keep one of them", at_key=True)  # fmt: skip


def one_source_of_packages(job: Job) -> Iterator[Wrong]:
    if job.environment is None:
        return
    given = [name for name in SOURCES if getattr(job.environment, name)]
    for name in given[1:]:
        yield Wrong(("environment", name), f"cannot stand beside {given[0]}",
                    "keep one of them", at_key=True)  # fmt: skip
    if given == ["image"] and job.environment.python:
        yield Wrong(("environment", "python"), "an image brings its own Python",
                    "leave it out", at_key=True)  # fmt: skip


def no_reserved_variables(job: Job) -> Iterator[Wrong]:
    places: list[tuple[tuple[str, ...], str]] = [(("env", name), name) for name in job.env]
    for role_name, role in job.roles.items():
        places += [(("roles", role_name, "env", name), name) for name in role.env]
    for path, name in places:
        if frameworks.is_reserved(name):
            yield Wrong(path, "is set by Dromon for every member", "leave it out", at_key=True)
    for at, name in enumerate(job.secrets):
        if frameworks.is_reserved(name):
            yield Wrong(("secrets", at), f"{name} is set by Dromon for every member",
                        "leave it out")  # fmt: skip


def secrets_only_once(job: Job) -> Iterator[Wrong]:
    if not job.secrets:
        return
    seen: set[str] = set()
    variables = set(job.env).union(*(role.env for role in job.roles.values()))
    for at, name in enumerate(job.secrets):
        if name in seen:
            yield Wrong(("secrets", at), f"{name} is there twice", "keep one")
        elif name in variables:
            yield Wrong(("secrets", at), f"{name} is in env too", "a secret is named here only")
        seen.add(name)


def scratch_is_not_copied(job: Job) -> Iterator[Wrong]:
    for name, volume in job.volumes.items():
        if volume.source == "node" and volume.access != "mount":
            path = ("volumes", name, "access")
            yield Wrong(path, "scratch space on the node can only be mounted", "leave it out")


def name_nodes_are_addresses(job: Job) -> Iterator[Wrong]:
    for at, address in enumerate(job.hdfs):
        if "://" not in address:
            yield Wrong(("hdfs", at), f"{address!r} is not the address of a name node",
                        "write for example hdfs://name-node:8020")  # fmt: skip


def placeholders_can_be_filled(job: Job) -> Iterator[Wrong]:
    if any("${" in text for _, text in texts(job)):
        yield from islice(unfillable(job), MOST)


def placeholders_where_they_work(job: Job) -> Iterator[Wrong]:
    """What packaging needs is fixed before a job has an id, so nothing is filled in there."""
    fixed: list[tuple[Path, str]] = [(("files", name), text) for name, text in job.files.items()]
    if job.workdir:
        fixed.append((("workdir",), job.workdir))
    if job.environment is not None:
        for key, value in job.environment:
            if isinstance(value, str):
                fixed.append((("environment", key), value))
    for path, text in fixed:
        if any(f"${{{room}." in text for room in ("config", "job", "volumes")):
            yield Wrong(path, "placeholders are not filled in here", "write it out")


RULES: tuple[Callable[[Job], Iterator[Wrong]], ...] = (
    known_framework,
    roles_of_the_framework,
    every_role_has_a_command,
    gang_no_larger_than_the_role,
    total_gpus_alone,
    one_source_of_packages,
    no_reserved_variables,
    secrets_only_once,
    scratch_is_not_copied,
    name_nodes_are_addresses,
    placeholders_can_be_filled,
    placeholders_where_they_work,
)


def broken(job: Job) -> list[Wrong]:
    return [wrong for rule in RULES for wrong in rule(job)]
