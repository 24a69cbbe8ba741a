"""Which framework a Volcano Job was written for, and which role each of its tasks has in it."""

from collections.abc import Mapping
from typing import Any

from dromon import frameworks
from dromon.compat.volcano import commands, naming
from dromon.compat.volcano.pods import Task
from dromon.compat.volcano.source import Source
from dromon.spec.names import ROLE_LIMIT

PLUGINS = {"pytorch": "torch", "tensorflow": "tensorflow", "mpi": "mpi"}
# What these plug-ins are for Dromon does by itself, in every job.
NOT_NEEDED = ("env", "svc", "ssh", *PLUGINS)
MXNET = ("scheduler", "server", "worker")
TENSORFLOW = {"ps": "ps", "worker": "worker", "chief": "chief", "master": "chief",
              "evaluator": "evaluator"}  # fmt: skip


def framework(plugins: Mapping[str, Any], tasks: list[Task]) -> str:
    for plugin, found in PLUGINS.items():
        if plugin in plugins:
            return found
    variables = {name for task in tasks for name in task.env}
    said = " ".join(word for task in tasks for word in task.words or ())
    if any(name.startswith("DMLC_") for name in variables):
        return "mxnet"
    if "TF_CONFIG" in variables or "TF_CONFIG" in said:
        return "tensorflow" if all(_tensorflow(task) for task in tasks) else "none"
    if len(tasks) > 1 and any(commands.launches_mpi(task.words or []) for task in tasks):
        return "mpi"
    if {"MASTER_ADDR", "MASTER_PORT"} & variables or any(
        word in said for word in ("torchrun", "torch.distributed", "MASTER_ADDR")
    ):
        return "torch"
    return "none"


def _tensorflow(task: Task) -> bool:
    return task.name.lower() in TENSORFLOW


def role_names(
    source: Source, found: str, plugins: Mapping[str, Any], tasks: list[Task]
) -> dict[str, str]:
    """Task -> role; empty where the tasks are none of the framework's roles."""
    names = [task.name for task in tasks]
    if found == "mxnet":
        said = {t.name: t.env.get("DMLC_ROLE") or naming.label(t.name, 16, "") for t in tasks}
        meant = {n: r for n, r in said.items() if r in MXNET}
    elif found == "tensorflow":
        words = _arguments(plugins.get("tensorflow"))
        given = {task: role for role, task in words.items() if role in TENSORFLOW}
        meant = {n: TENSORFLOW.get(given.get(n, n.lower()), "") for n in names}
        meant = {n: role for n, role in meant.items() if role}
    else:
        return naming.distinct(names, ROLE_LIMIT, "role")
    return meant if len(set(meant.values())) == len(names) else {}


def _arguments(given: Any) -> dict[str, str]:
    """`["--ps=ps", "--worker=tf-worker"]` as a mapping."""
    words = [str(word) for word in given] if isinstance(given, list) else []
    pairs = (word.lstrip("-").partition("=") for word in words)
    return {key: value for key, equals, value in pairs if equals}


def mpi_task(source: Source, tasks: list[Task]) -> tuple[Task, Task] | None:
    """The task that calls mpirun, and the one whose pods are its hosts."""
    launchers = [task for task in tasks if commands.launches_mpi(task.words or [])]
    others = [task for task in tasks if task not in launchers]
    if len(launchers) != 1 or len(others) > 1:
        return None
    return launchers[0], others[0] if others else launchers[0]


def without_the_frameworks(source: Source, task: Task) -> None:
    """Variables that the framework's place in a world fills in, and nobody else may set."""
    taken = [name for name in (*task.env, *task.secrets) if frameworks.is_reserved(name)]
    for name in taken:
        task.env.pop(name, None)
        task.secrets.pop(name, None)
    if taken:
        source.note(task.path, f"Dromon sets {', '.join(taken)} in every member: left out",
                    at_key=False)  # fmt: skip
