"""The exact variables of every framework, as literal tables over a few worlds."""

import json

import pytest

from dromon import frameworks
from dromon.frameworks.world import Member, World

HERE = "127.0.0.1"


def world(framework: str, *members: Member, attempt: int = 1) -> World:
    return World("unet-abc234", attempt, framework, members)


def variables(world: World, rank: int, process: int = 0, directory: str = "") -> dict[str, str]:
    return frameworks.environment(world, world.members[rank], process, directory)


# ---- none ---------------------------------------------------------------------------------------


def test_a_plain_process_learns_which_of_its_member_it_is():
    pair = world("none", Member("worker", 0, 0, HERE), Member("worker", 1, 1, HERE, (), 3))
    assert variables(pair, 0) == {"DROMON_PROCESS": "0", "DROMON_PROCESSES": "1"}
    assert variables(pair, 1, process=2) == {"DROMON_PROCESS": "2", "DROMON_PROCESSES": "3"}


# ---- torch --------------------------------------------------------------------------------------

TORCH = world(
    "torch",
    Member("worker", 0, 0, "10.0.0.1", (29400,), processes=2, gpus=2),
    Member("worker", 1, 1, "10.0.0.2", (31000,), processes=2, gpus=2),
    Member("critic", 0, 2, "10.0.0.2", (31001,), processes=1, gpus=4),
    attempt=3,
)


def test_torch_second_process_of_the_second_member():
    assert variables(TORCH, 1, process=1) == {
        "DROMON_PROCESS": "1",
        "DROMON_PROCESSES": "2",
        "RANK": "3",
        "WORLD_SIZE": "5",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "3",
        "ROLE_NAME": "worker",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "4",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29400",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "2",
        "TORCHELASTIC_RUN_ID": "unet-abc234",
        "PET_NNODES": "5",
        "PET_NODE_RANK": "3",
        "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": "10.0.0.1",
        "PET_MASTER_PORT": "29400",
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ID": "unet-abc234",
    }


def test_torch_role_ranks_start_anew_in_each_role():
    got = variables(TORCH, 2)
    assert (got["RANK"], got["ROLE_NAME"], got["ROLE_RANK"], got["ROLE_WORLD_SIZE"]) == (
        "4", "critic", "0", "1",
    )  # fmt: skip


def test_torchrun_gets_all_gpus_of_a_member_of_one_process():
    assert variables(TORCH, 2)["PET_NPROC_PER_NODE"] == "4"


def test_torch_ranks_are_dense_over_all_processes():
    ranks = [variables(TORCH, m.rank, p)["RANK"] for m in TORCH.members for p in range(m.processes)]
    assert ranks == ["0", "1", "2", "3", "4"]


# ---- tensorflow ---------------------------------------------------------------------------------

TENSORFLOW = world(
    "tensorflow",
    Member("chief", 0, 0, "10.0.0.1", (2001,)),
    Member("worker", 0, 1, "10.0.0.1", (2002,)),
    Member("worker", 2, 2, "10.0.0.2", (2003,)),  # worker-1 is not there: the gang started with min
    Member("ps", 0, 3, "10.0.0.3", (2004,)),
    Member("evaluator", 0, 4, "10.0.0.3"),
)
CLUSTER = {
    "chief": ["10.0.0.1:2001"],
    "worker": ["10.0.0.1:2002", "10.0.0.2:2003"],
    "ps": ["10.0.0.3:2004"],
}


@pytest.mark.parametrize(
    ("rank", "task"),
    [
        (0, {"type": "chief", "index": 0}),
        (1, {"type": "worker", "index": 0}),
        (2, {"type": "worker", "index": 1}),
        (3, {"type": "ps", "index": 0}),
        (4, {"type": "evaluator", "index": 0}),
    ],
)
def test_tensorflow_tasks_see_one_cluster_without_the_evaluator(rank, task):
    got = variables(TENSORFLOW, rank)
    assert set(got) == {"DROMON_PROCESS", "DROMON_PROCESSES", "TF_CONFIG"}
    assert json.loads(got["TF_CONFIG"]) == {"cluster": CLUSTER, "task": task}


def test_tensorflow_worker_alone_is_a_cluster_too():
    alone = world("tensorflow", Member("worker", 0, 0, HERE, (2001,)))
    assert json.loads(variables(alone, 0)["TF_CONFIG"]) == {
        "cluster": {"worker": ["127.0.0.1:2001"]},
        "task": {"type": "worker", "index": 0},
    }


def test_tensorflow_processes_of_a_member_are_tasks_of_their_own():
    pair = world(
        "tensorflow",
        Member("worker", 0, 0, HERE, (2001, 2002), processes=2),
        Member("worker", 1, 1, HERE, (2003, 2004), processes=2),
    )
    config = json.loads(variables(pair, 1, process=1)["TF_CONFIG"])
    assert config["cluster"]["worker"] == [f"127.0.0.1:{port}" for port in range(2001, 2005)]
    assert config["task"] == {"type": "worker", "index": 3}


# ---- mxnet --------------------------------------------------------------------------------------

MXNET = world(
    "mxnet",
    Member("worker", 0, 0, "10.0.0.1", (9001, 9002), processes=2),
    Member("worker", 1, 1, "10.0.0.2", (9003, 9004), processes=2),
    Member("server", 0, 2, "10.0.0.2", (9005,)),
    Member("scheduler", 0, 3, "10.0.0.3", (9006,)),
)


@pytest.mark.parametrize(
    ("rank", "process", "role", "host", "port"),
    [
        (1, 1, "worker", "10.0.0.2", "9004"),
        (2, 0, "server", "10.0.0.2", "9005"),
        (3, 0, "scheduler", "10.0.0.3", "9006"),
    ],
)
def test_mxnet_members_meet_at_the_scheduler(rank, process, role, host, port):
    got = variables(MXNET, rank, process)
    del got["DROMON_PROCESS"], got["DROMON_PROCESSES"]
    assert got == {
        "DMLC_ROLE": role,
        "DMLC_PS_ROOT_URI": "10.0.0.3",
        "DMLC_PS_ROOT_PORT": "9006",
        "DMLC_NUM_WORKER": "4",
        "DMLC_NUM_SERVER": "1",
        "DMLC_NODE_HOST": host,
        "PORT": port,
    }


# ---- jax ----------------------------------------------------------------------------------------

JAX = world(
    "jax",
    Member("worker", 0, 0, "10.0.0.1", (1234,)),
    Member("worker", 1, 1, "10.0.0.2", (4321,), processes=2, gpus=4),
)


def test_jax_process_without_gpus():
    assert variables(JAX, 0) == {
        "DROMON_PROCESS": "0",
        "DROMON_PROCESSES": "1",
        "JAX_COORDINATOR_ADDRESS": "10.0.0.1:1234",
        "JAX_NUM_PROCESSES": "3",
        "JAX_PROCESS_ID": "0",
        "OMPI_MCA_orte_hnp_uri": "0.0;tcp://10.0.0.1:1234",
        "OMPI_COMM_WORLD_SIZE": "3",
        "OMPI_COMM_WORLD_RANK": "0",
        "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    }


def test_jax_processes_share_the_gpus_of_their_member():
    first, second = variables(JAX, 1, 0), variables(JAX, 1, 1)
    assert (first["JAX_PROCESS_ID"], first["JAX_LOCAL_DEVICE_IDS"]) == ("1", "0,1")
    assert (second["JAX_PROCESS_ID"], second["JAX_LOCAL_DEVICE_IDS"]) == ("2", "2,3")
    assert second["OMPI_COMM_WORLD_LOCAL_RANK"] == "1"


def test_jax_process_alone_in_its_member_sees_all_its_gpus():
    whole = world("jax", Member("worker", 0, 0, HERE, (1234,), gpus=3))
    assert variables(whole, 0)["JAX_LOCAL_DEVICE_IDS"] == "0,1,2"


# ---- horovod ------------------------------------------------------------------------------------

HOROVOD = world(
    "horovod",
    Member("worker", 0, 0, "10.0.0.1", (7001,), processes=2),
    Member("worker", 1, 1, "10.0.0.1", (7002,)),
    Member("worker", 2, 2, "10.0.0.2", (7003,)),
)


@pytest.mark.parametrize(
    ("rank", "process", "host", "numbers"),
    [  # rank size, local rank size, cross rank size
        (0, 0, "10.0.0.1", "0 4 0 3 0 2"),
        (0, 1, "10.0.0.1", "1 4 1 3 0 1"),
        (1, 0, "10.0.0.1", "2 4 2 3 0 1"),
        (2, 0, "10.0.0.2", "3 4 0 1 1 2"),
    ],
)
def test_horovod_ranks_on_two_hosts(rank, process, host, numbers):
    at, size, local, local_size, cross, cross_size = numbers.split()
    got = variables(HOROVOD, rank, process)
    del got["DROMON_PROCESS"], got["DROMON_PROCESSES"]
    assert got == {
        "HOROVOD_HOSTNAME": host,
        "HOROVOD_RANK": at,
        "HOROVOD_SIZE": size,
        "HOROVOD_LOCAL_RANK": local,
        "HOROVOD_LOCAL_SIZE": local_size,
        "HOROVOD_CROSS_RANK": cross,
        "HOROVOD_CROSS_SIZE": cross_size,
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "7001",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }


# ---- mpi ----------------------------------------------------------------------------------------


def test_mpi_place_on_one_machine():
    pair = world("mpi", Member("worker", 0, 0, HERE), Member("worker", 1, 1, HERE))
    assert variables(pair, 1, directory="/job/world/1") == {
        "DROMON_PROCESS": "0",
        "DROMON_PROCESSES": "1",
        "DROMON_PLACE": "worker-1",
        "DROMON_PLACES": "worker-1",
        "DROMON_LAUNCHER": HERE,
        "PRTE_MCA_prte_default_hostfile": "/job/world/1/hostfile",
        "PRTE_MCA_plm_ssh_agent": "/job/world/1/rsh",
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        "OMPI_MCA_orte_default_hostfile": "/job/world/1/hostfile",
        "OMPI_MCA_plm_rsh_agent": "/job/world/1/rsh",
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_leave_session_attached": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_MCA_coll_han_priority": "0",
        "OMPI_MCA_btl_tcp_if_include": "lo",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "HYDRA_HOST_FILE": "/job/world/1/machinefile",
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": "/job/world/1/rsh",
        "HYDRA_ENV": "none",
    }


def test_mpi_on_machines_of_their_own_keeps_its_collectives_and_interfaces():
    pair = world("mpi", Member("worker", 0, 0, "10.0.0.1"), Member("worker", 1, 1, "10.0.0.2"))
    got = variables(pair, 0, directory="/job")
    assert not {"OMPI_MCA_coll_han_priority", "OMPI_MCA_btl_tcp_if_include"} & set(got)


@pytest.mark.parametrize(("hosts", "apart"), [("ab", True), ("aa", False)])
def test_mpi_shares_memory_unless_several_ranks_of_two_places_meet(hosts, apart):
    first, second = (
        Member("worker", n, n, f"10.0.0.{host}", processes=2) for n, host in enumerate(hosts)
    )
    got = variables(world("mpi", first, second), 0, directory="/job")
    assert ("OMPI_MCA_btl" not in got) is apart
