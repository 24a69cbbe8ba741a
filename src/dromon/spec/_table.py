"""Stand-in until `dromon.frameworks` has these names."""

ROLES: dict[str, frozenset[str] | None] = {
    "none": None,
    "torch": None,
    "tensorflow": frozenset(("chief", "worker", "ps", "evaluator")),
    "mxnet": frozenset(("scheduler", "server", "worker")),
    "jax": None,
    "mpi": None,
    "horovod": None,
}
RESERVED: frozenset[str] = frozenset(("RANK", "WORLD_SIZE", "MASTER_ADDR", "TF_CONFIG"))
IMPLIED: dict[str, dict[str, dict[str, object]]] = {
    "mxnet": {
        "scheduler": {"command": "python -c 'import mxnet'", "cpus": 0.1},
        "server": {"command": "python -c 'import mxnet'", "cpus": 1.0},
    },
}
