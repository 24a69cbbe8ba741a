"""What each kind of task gets: `TaskSpec` in all the forms it had, and the ready-made sets."""

from collections.abc import Mapping
from enum import Enum

from dromon.units import parse_size

TASK_TYPES = ("chief", "worker", "ps", "evaluator", "tensorboard")
MIB = 2**20
MAX_MEMORY_CONTAINER = 48 * 2**10  # MiB
MAX_VCORES_CONTAINER = 48


class NodeLabel(Enum):
    """Which nodes. CPU: any; GPU: those labelled `gpu`."""

    CPU = ""
    GPU = "gpu"


TaskFlavor = NodeLabel  # the early name


class TaskSpec:
    """Resources of one kind of task. `memory` is in MiB, or a text such as "2 GiB".

    Beside tf-yarn's own: `label` may be any text, and `gpus` asks for GPUs of each instance.
    """

    def __init__(
        self,
        memory: int | str,
        vcores: int,
        instances: int = 1,
        nb_proc_per_worker: int | NodeLabel = 1,
        label: NodeLabel | str | int = NodeLabel.CPU,
        tb_termination_timeout_seconds: int = -1,
        tb_model_dir: str | None = None,
        tb_extra_args: str | None = None,
        *,
        flavor: NodeLabel | None = None,
        termination_timeout_seconds: int | None = None,
        gpus: int = 0,
    ) -> None:
        if isinstance(nb_proc_per_worker, NodeLabel):  # the fourth argument of earlier releases
            if isinstance(label, int):
                tb_termination_timeout_seconds = label
            nb_proc_per_worker, label = 1, nb_proc_per_worker
        if isinstance(label, int):
            raise ValueError(f"label must be a NodeLabel, not {label!r}")
        self.memory = memory
        self.vcores = vcores
        self.instances = instances
        self.nb_proc_per_worker = nb_proc_per_worker
        self.label: NodeLabel | str = label if flavor is None else flavor
        if termination_timeout_seconds is not None:
            tb_termination_timeout_seconds = termination_timeout_seconds
        self.tb_termination_timeout_seconds = tb_termination_timeout_seconds
        self.tb_model_dir = tb_model_dir
        self.tb_extra_args = tb_extra_args
        self.gpus = gpus

    @property
    def memory(self) -> int:
        """In MiB."""
        return self._memory

    @memory.setter
    def memory(self, value: int | str) -> None:
        if isinstance(value, str):
            text = value.replace(" ", "")
            value = int(text) if text.isdecimal() else -(-parse_size(text) // MIB)
        self._memory = value

    def __repr__(self) -> str:
        where = f", label={self.node_label!r}" if self.node_label else ""
        return f"TaskSpec({self.memory} MiB, {self.vcores} vcores, {self.instances}{where})"

    @property
    def node_label(self) -> str:
        return self.label.value if isinstance(self.label, NodeLabel) else self.label


def single_server_topology(
    memory: int | str = MAX_MEMORY_CONTAINER, vcores: int = MAX_VCORES_CONTAINER
) -> dict[str, TaskSpec]:
    """One chief that does everything."""
    return {"chief": TaskSpec(memory, vcores)}


def ps_strategy_topology(
    nb_workers: int = 2,
    nb_ps: int = 1,
    memory: int | str = MAX_MEMORY_CONTAINER,
    vcores: int = MAX_VCORES_CONTAINER,
) -> dict[str, TaskSpec]:
    """Chief, workers, parameter servers and an evaluator, all of one size."""
    return {
        "chief": TaskSpec(memory, vcores),
        "evaluator": TaskSpec(memory, vcores),
        "worker": TaskSpec(memory, vcores, nb_workers),
        "ps": TaskSpec(memory, vcores, nb_ps),
    }


def check(task_specs: Mapping[str, TaskSpec]) -> None:
    """ValueError, as tf-yarn raised it, for tasks that cannot train together."""
    unknown = sorted(set(task_specs) - set(TASK_TYPES))
    if unknown:
        raise ValueError(
            f"task_specs has {', '.join(unknown)}; its keys are a subset of {', '.join(TASK_TYPES)}"
        )
    count = {task: spec.instances for task, spec in task_specs.items()}
    if count.get("chief") != 1:
        raise ValueError("exactly one 'chief' task is required in task_specs")
    for task in ("evaluator", "tensorboard"):
        if count.get(task, 0) > 1:
            raise ValueError(f"no more than one {task!r} task is allowed in task_specs")
