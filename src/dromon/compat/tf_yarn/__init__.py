"""tf-yarn's names over Dromon: change the import, nothing else.

    from dromon.compat.tf_yarn import Experiment, TaskSpec, run_on_yarn

`client` is the call, `translate` makes a job of it; `start`, `member` and `evaluator` run in the
members, where this package is shipped along. Hence standard library only at import.
"""

from dromon.compat.tf_yarn.client import (
    RunFailed,
    get_safe_experiment_fn,
    run_on_yarn,
    standalone_client_mode,
)
from dromon.compat.tf_yarn.experiment import Experiment, KerasExperiment
from dromon.compat.tf_yarn.metrics import Metrics
from dromon.compat.tf_yarn.topologies import (
    NodeLabel,
    TaskFlavor,
    TaskSpec,
    ps_strategy_topology,
    single_server_topology,
)

__all__ = [
    "Experiment", "KerasExperiment", "Metrics", "NodeLabel", "RunFailed", "TaskFlavor",
    "TaskSpec", "get_safe_experiment_fn", "ps_strategy_topology", "run_on_yarn",
    "single_server_topology", "standalone_client_mode",
]  # fmt: skip
