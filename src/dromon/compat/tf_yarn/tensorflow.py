"""Where the late releases kept their TensorFlow names: `from tf_yarn.tensorflow import …`."""

from dromon.compat.tf_yarn import (
    Experiment,
    KerasExperiment,
    Metrics,
    NodeLabel,
    RunFailed,
    TaskSpec,
    get_safe_experiment_fn,
    ps_strategy_topology,
    run_on_yarn,
    single_server_topology,
)

__all__ = [
    "Experiment", "KerasExperiment", "Metrics", "NodeLabel", "RunFailed", "TaskSpec",
    "get_safe_experiment_fn", "ps_strategy_topology", "run_on_yarn", "single_server_topology",
]  # fmt: skip
