"""One call of `run_on_yarn` as a job in the shape of the job file, with a directory to go with it.

What cannot be given is refused here, in words, before anything is submitted.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dromon.compat.tf_yarn import topologies
from dromon.compat.tf_yarn.interpreter import environment, pyenvs
from dromon.compat.tf_yarn.shipping import OURS, check_source, local_path, ship, unpacked
from dromon.compat.tf_yarn.topologies import NodeLabel, TaskSpec
from dromon.errors import Refused, UsageError

LIBHDFS_OPTS = "-Xms64m -Xmx512m"

# Arguments that lead to machinery Dromon does not have: why, and what to do instead.
REFUSED = {
    "skein_client": "no skein is used; leave it out, and name another cluster by DROMON_ON",
    "custom_task_module": "members run Dromon's own task; to run a module of yours, write a job "
    "file with `command: python -m MODULE`. For the Horovod task leave it out: a KerasExperiment "
    "with workers trains under MultiWorkerMirroredStrategy",
    "path_to_log_hdfs": "logs are kept with the job; `dromon logs JOB` prints them",
    "cuda_runtime_hdfs_path": "name the CUDA libraries as packages in pip_packages=, or set "
    "LD_LIBRARY_PATH in env= to where the nodes have them",
    "max_restarts": "single tasks are not restarted; use nb_retries=",
}


@dataclass(frozen=True)
class Call:
    """The arguments of `run_on_yarn`, whichever release they were written for."""

    experiment_fn: Callable[[], Any]
    task_specs: Mapping[str, TaskSpec]
    python: str | None = None
    pip_packages: Sequence[str] | None = None
    pyenv_zip_path: str | Mapping[NodeLabel, str] | None = None
    files: Mapping[str, str] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    queue: str = "default"
    acls: Any = None
    name_nodes: Sequence[str] | None = None
    file_systems: Sequence[str] | None = None
    eval_monitor_log_thresholds: Mapping[str, Any] | None = None
    log_conf_file: str | None = None
    nb_retries: int = 0
    name: str = "RunOnYarn"
    pre_script_hook: str | None = None
    skein_client: Any = None
    custom_task_module: str | None = None
    path_to_log_hdfs: str | None = None
    cuda_runtime_hdfs_path: str | None = None
    max_restarts: int | None = None


def check(call: Call) -> None:
    if not callable(call.experiment_fn):
        raise TypeError("experiment_fn must be a function")
    for name, remedy in REFUSED.items():
        if getattr(call, name) is not None:
            raise _refused(name, remedy)
    if call.nb_retries < 0:
        raise ValueError(f"nb_retries must be greater or equal to 0, not {call.nb_retries}")
    topologies.check(call.task_specs)
    for name, source in (call.files or {}).items():
        check_source(name, source)
    if call.pyenv_zip_path and (call.pip_packages or call.python):
        raise _refused(
            "pyenv_zip_path", "it is the whole environment; leave out pip_packages= and python="
        )


def job(call: Call, on: str, stage: str) -> dict[str, Any]:
    """The job. Its directory is `stage`, which must be there until it is submitted."""
    check(call)
    files = {target: local_path(source) for target, source in (call.files or {}).items()}
    files = unpacked(files, stage)
    asked = {
        "log_conf_file": call.log_conf_file,
        "thresholds": dict(call.eval_monitor_log_thresholds or {}),
        "evaluated": any(t == "evaluator" and s.instances for t, s in call.task_specs.items()),
    }
    ship(call.experiment_fn, asked, files, os.path.join(stage, OURS))
    archives = pyenvs(call.pyenv_zip_path, on)
    made: dict[str, Any] = {
        "name": _label(call.name),
        "framework": "tensorflow",
        "queue": call.queue,
        "workdir": stage,
        "files": {**files, **archives.files},
        "env": _env(call.env),
        "environment": environment(call.python, call.pip_packages),
        "volumes": archives.volumes,
        "roles": {
            task: _role(spec, _command(call, spec, archives.paths), on)
            for task, spec in call.task_specs.items()
            if task != "tensorboard" and spec.instances
        },
        "retries": {"max": call.nb_retries, "backoff": "1s"} if call.nb_retries else {},
        "hdfs": list(dict.fromkeys([*(call.name_nodes or ()), *(call.file_systems or ())])),
        "acls": _acls(call.acls),
        "tensorboard": _tensorboard(call.task_specs.get("tensorboard")),
    }
    return {key: value for key, value in made.items() if value}


def _refused(argument: str, remedy: str) -> Refused:
    return Refused(
        f"run_on_yarn: {argument}= cannot be honoured", hint=remedy[0].upper() + remedy[1:] + "."
    )


def _escaped(text: str) -> str:
    """So that a text of the user's is not taken for one of our placeholders."""
    return text.replace("${", "$${")


def _label(name: str) -> str:
    """From RunOnYarn to run-on-yarn."""
    from dromon.engines.intake import label

    return label(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name))


# ---- where it runs ------------------------------------------------------------------------------


def _role(spec: TaskSpec, command: Any, on: str) -> dict[str, Any]:
    resources: dict[str, Any] = {"cpus": spec.vcores, "memory": f"{spec.memory}MiB"}
    label, gpus = spec.node_label, spec.gpus
    if on == "local" and label == NodeLabel.GPU.value:
        # This machine has no labels, but what was meant is plain.
        label, gpus = "", gpus or 1
    if gpus:
        resources["gpus"] = gpus
    role = {"replicas": spec.instances, "command": command, "resources": resources}
    if spec.nb_proc_per_worker != 1:
        role["processes"] = spec.nb_proc_per_worker
    return {**role, "node_label": label} if label else role


def _command(call: Call, spec: TaskSpec, pyenvs: Mapping[str, str]) -> list[str] | str:
    words = ["python", f"{OURS}/start.py"]
    if pyenvs:
        path = pyenvs.get(spec.node_label) or pyenvs.get(NodeLabel.CPU.value)
        if path is None:
            raise Refused(
                f"run_on_yarn: pyenv_zip_path= has no environment for the label {spec.label}",
                hint="Give one for each label in task_specs, or one path for all.",
            )
        words += ["--pyenv", path, "${volumes.pyenv-room}"]
    if call.pre_script_hook:
        return f"{_escaped(call.pre_script_hook)}\nexec " + " ".join(words)
    return words


def _env(given: Mapping[str, str]) -> dict[str, str]:
    env = {name: _escaped(str(value)) for name, value in given.items()}
    env["LIBHDFS_OPTS"] = f"{LIBHDFS_OPTS} {env.get('LIBHDFS_OPTS', '')}".strip()
    return env


def _acls(given: Any) -> dict[str, list[str]]:
    """skein's ACLs, or a mapping of the same keys."""
    if given is None:
        return {}
    keys = ("enable", "ui_users", "view_users", "view_groups", "modify_users", "modify_groups")
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - set(keys))
        if unknown:
            raise UsageError(
                f"run_on_yarn: acls= has no {unknown[0]}", hint=f"It has {', '.join(keys)}."
            )
        asked = dict(given)
    else:
        asked = {key: getattr(given, key, None) for key in keys}
    if asked.get("enable") is False:
        return {}

    def named(*lists: str) -> list[str]:
        return list(dict.fromkeys(each for key in lists for each in asked.get(key) or ()))

    found = {
        "view": named("view_users", "ui_users", "view_groups"),
        "modify": named("modify_users", "modify_groups"),
    }
    return {key: names for key, names in found.items() if names}


def _tensorboard(spec: TaskSpec | None) -> str | None:
    if spec is None or not spec.instances:
        return None
    if spec.tb_extra_args or spec.tb_termination_timeout_seconds >= 0:
        raise Refused(
            "run_on_yarn: tb_extra_args and tb_termination_timeout_seconds cannot be honoured",
            hint="Leave them out: TensorBoard is started with its defaults, while the job runs.",
        )
    if not spec.tb_model_dir:
        raise Refused(
            'run_on_yarn: the "tensorboard" task does not say which directory to show',
            hint="Give tb_model_dir= to its TaskSpec, the model's directory.",
        )
    return str(spec.tb_model_dir)
