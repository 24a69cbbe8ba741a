"""What the models expect at a path: which keys exist, and where a misplaced one belongs."""

from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from dromon.spec.model import Environment, Job, Part, Resources, Role
from dromon.spec.path import Path
from dromon.spec.words import nearest

SHORT_KEYS = frozenset(Role.model_fields) - frozenset(Job.model_fields)
ROLE = "worker"  # what the short form describes

# Words of other tools for keys of ours.
SYNONYMS = {
    "cmd": "command", "run": "command", "script": "command", "entrypoint": "command",
    "workers": "replicas", "num_workers": "replicas", "instances": "replicas", "nodes": "replicas",
    "timeout": "max_duration", "time_limit": "max_duration", "walltime": "max_duration",
    "dependencies": "environment.packages", "pip": "environment.packages",
    "nproc_per_node": "processes", "tasks": "roles", "mem": "resources.memory",
    "envs": "env", "artifacts": "outputs", "mounts": "volumes", "min_replicas": "min",
}  # fmt: skip
# What a training script's own settings are called at the top of other tools' files.
FOREIGN = frozenset((
    "model", "models", "training", "train", "trainer", "data", "dataset", "datasets",
    "dataloader", "optimizer", "optim", "hyperparameters", "hparams", "params", "parameters",
    "loss", "scheduler", "augmentation", "preprocessing", "evaluation", "eval", "validation",
    "inference", "experiment", "hydra", "defaults", "network",
))  # fmt: skip


def bare(annotation: Any) -> tuple[Any, bool]:
    """The type itself, and whether null is one of its values."""
    if get_origin(annotation) is Annotated:
        return bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        inside = [a for a in get_args(annotation) if a is not NoneType]
        nullable = len(inside) < len(get_args(annotation))
        if len(inside) == 1:
            return bare(inside[0])[0], nullable
        return annotation, nullable
    return annotation, False


def expected(path: Path) -> tuple[Any, bool]:
    """The type at a path of the long form and whether null is allowed; Any below free keys."""
    kind: Any = Job
    nullable = False
    for key in path:
        if isinstance(kind, type) and issubclass(kind, Part):
            field = kind.model_fields.get(str(key))
            if field is None:
                return None, False
            kind, nullable = bare(field.annotation)
        elif get_origin(kind) in (dict, list):
            kind, nullable = bare(get_args(kind)[-1])
        else:
            return Any, False
    return kind, nullable


def is_part(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Part)


def advice(path: Path, value: object) -> str:
    """What to do about a key that no model has, standing at this path of the long form."""
    *above, key = path
    parent, _ = expected(tuple(above))
    name = str(key)
    if parent is Job and name in FOREIGN:
        return "put these under config:"
    homes: dict[str, str] = {}
    for kind, place in _homes(parent):
        for field in kind.model_fields:
            homes.setdefault(field, place + field)
    synonym = SYNONYMS.get(name)
    if synonym and synonym in homes.values():
        return f"did you mean {synonym}?"
    here = list(parent.model_fields) if is_part(parent) else []
    if parent is Job:
        here += sorted(SHORT_KEYS)
    found = nearest(name, here)
    if found:
        return found
    if name in homes:
        return f"did you mean {homes[name]}?"
    if parent is not Job and name in Job.model_fields:
        return f"{name} stands at the top of the file, not here"
    if parent is not Job and name in Role.model_fields:
        return f"{name} stands beside resources, not in it"
    if parent is Job and isinstance(value, dict):
        return "put these under config:"
    return ""


def _homes(parent: Any) -> list[tuple[type[Part], str]]:
    """Models whose keys are often written one level too high, and how to reach them."""
    if parent is Job:
        return [
            (Job, ""), (Role, ""), (Resources, "resources."), (Environment, "environment."),
        ]  # fmt: skip
    if parent is Role:
        return [(Role, ""), (Resources, "resources.")]
    return []
