"""Roles, ports, endings, rank order and reserved names of the frameworks."""

import pytest

from dromon import frameworks
from dromon.frameworks.world import Member, World


@pytest.mark.parametrize(
    ("framework", "role", "processes", "ports"),
    [
        ("none", "worker", 4, 0),
        ("torch", "worker", 4, 1),
        ("jax", "worker", 2, 1),
        ("horovod", "worker", 2, 1),
        ("mpi", "worker", 2, 0),
        ("tensorflow", "chief", 1, 1),
        ("tensorflow", "worker", 2, 2),
        ("tensorflow", "ps", 1, 1),
        ("tensorflow", "evaluator", 1, 0),
        ("mxnet", "worker", 2, 2),
        ("mxnet", "server", 1, 1),
        ("mxnet", "scheduler", 1, 1),
    ],
)
def test_ports_do_not_depend_on_who_becomes_rank_zero(framework, role, processes, ports):
    for index in (0, 7):
        assert frameworks.ports_needed(framework, role, index, processes) == ports


@pytest.mark.parametrize(
    ("framework", "endings"),
    [
        ("none", {"worker": "required", "watcher": "required"}),
        ("torch", {"worker": "required"}),
        ("jax", {"worker": "required"}),
        ("mpi", {"worker": "required"}),
        ("horovod", {"worker": "required"}),
        ("tensorflow", {"worker": "required", "ps": "serves", "evaluator": "required"}),
        (
            "tensorflow",
            {"chief": "required", "worker": "follows", "ps": "serves", "evaluator": "required"},
        ),
        ("mxnet", {"worker": "required", "server": "follows", "scheduler": "follows"}),
    ],
)
def test_how_roles_end(framework, endings):
    assert {r: frameworks.ending(framework, r, list(endings)) for r in endings} == endings


def test_rank_zero_is_the_one_others_look_for():
    assert frameworks.rank_order("tensorflow", ["evaluator", "ps", "worker", "chief"]) == [
        "chief", "worker", "ps", "evaluator",
    ]  # fmt: skip
    assert frameworks.rank_order("mxnet", ["scheduler", "server", "worker"]) == [
        "worker", "server", "scheduler",
    ]  # fmt: skip
    assert frameworks.rank_order("torch", ["critic", "worker", "actor", "master"]) == [
        "master", "worker", "critic", "actor",
    ]  # fmt: skip


def test_mxnet_brings_its_scheduler_and_servers():
    assert frameworks.IMPLIED == {
        "mxnet": {
            "scheduler": {"replicas": 1, "command": 'python -c "import mxnet"', "cpus": 0.1},
            "server": {"replicas": 1, "command": 'python -c "import mxnet"', "cpus": 0.5},
        }
    }


@pytest.mark.parametrize("framework", sorted(frameworks.FRAMEWORKS))
def test_whatever_tells_a_member_its_place_is_reserved(framework):
    roles = frameworks.ROLES[framework] or ["worker"]
    members = tuple(
        Member(role, 0, rank, "127.0.0.1", (4000 + rank,), gpus=1)
        for rank, role in enumerate(frameworks.rank_order(framework, sorted(roles)))
    )
    world = World("job-abc234", 1, framework, members)
    tunes = {  # set for the user's good; a user may know better
        "PORT", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
        "PRTE_MCA_hwloc_default_binding_policy", "OMPI_MCA_hwloc_base_binding_policy",
        "OMPI_MCA_coll_han_priority", "OMPI_MCA_btl_tcp_if_include", "HOROVOD_CPU_OPERATIONS",
    }  # fmt: skip
    for member in members:
        names = set(frameworks.environment(world, member)) - tunes
        assert {name for name in names if not frameworks.is_reserved(name)} == set()


@pytest.mark.parametrize(
    "name",
    """RANK WORLD_SIZE MASTER_ADDR TF_CONFIG DMLC_ROLE DMLC_PS_ROOT_PORT JAX_PROCESS_ID
    JAX_COORDINATOR_ADDRESS HOROVOD_RANK HOROVOD_GLOO_RENDEZVOUS_PORT OMPI_COMM_WORLD_LOCAL_SIZE
    DROMON_RANK DROMON_ANYTHING CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES
    PET_NNODES""".split(),  # noqa: SIM905
)
def test_reserved_names(name):
    assert frameworks.is_reserved(name)


@pytest.mark.parametrize(
    "name",
    """OMP_NUM_THREADS NCCL_DEBUG NCCL_SOCKET_IFNAME TF_CPP_MIN_LOG_LEVEL JAX_PLATFORMS
    JAX_ENABLE_X64 DMLC_INTERFACE PS_VERBOSE HOROVOD_TIMELINE OMPI_MCA_btl PORT PET_MAX_RESTARTS
    PYTHONPATH RANKING""".split(),  # noqa: SIM905
)
def test_names_that_only_tune_stay_free(name):
    assert not frameworks.is_reserved(name)
