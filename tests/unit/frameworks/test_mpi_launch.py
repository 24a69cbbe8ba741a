"""What MPI members run: host files, the launcher's stand-in for ssh, and places that wait."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dromon import frameworks
from dromon.frameworks.world import Member, World

WORLD = World(
    "mpi-abc234", 1, "mpi",
    tuple(Member("worker", n, n, "127.0.0.1", processes=2) for n in range(3)),
)  # fmt: skip
FIRST, SECOND, THIRD = WORLD.members


def test_rank_zero_gets_the_host_files_of_both_families():
    files = frameworks.files(WORLD, FIRST)
    assert set(files) == {"hostfile", "machinefile", "rsh"}
    assert files["hostfile"] == "worker-0 slots=2\nworker-1 slots=2\nworker-2 slots=2\n"
    assert files["machinefile"] == "worker-0:2\nworker-1:2\nworker-2:2\n"
    assert frameworks.files(WORLD, SECOND) == {}


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("python train.py", ["mpirun", "-n", "6", "bash", "-c", "python train.py"]),
        (["python", "train.py"], ["mpirun", "-n", "6", "python", "train.py"]),
        ("mpirun -n 2 python train.py", ["bash", "-c", "mpirun -n 2 python train.py"]),
        (
            "cd lib && /opt/mpi/bin/mpiexec ./a",
            ["bash", "-c", "cd lib && /opt/mpi/bin/mpiexec ./a"],
        ),
        (["mpirun", "./a.out"], ["mpirun", "./a.out"]),
        ("bash all.sh # mpirun", ["bash", "-c", "bash all.sh # mpirun"]),
        ("python mpirunner.py", ["mpirun", "-n", "6", "bash", "-c", "python mpirunner.py"]),
    ],
)
def test_a_command_runs_under_mpirun_unless_it_calls_it(command, runs):
    words = frameworks.command(WORLD, FIRST, 0, command, "/dir")
    assert words[:2] == ["sh", "-c"]
    assert words[3:] == ["/dir", *runs]


def test_mpirun_starts_the_further_processes_of_a_place():
    assert frameworks.command(WORLD, FIRST, 1, "python train.py", "/dir") == ["true"]
    assert frameworks.command(WORLD, SECOND, 1, "python train.py", "/dir") == ["true"]


def test_other_frameworks_run_what_was_written():
    alone = World("t-abc234", 1, "torch", (Member("worker", 0, 0, "127.0.0.1", (1,)),))
    for command in ("python train.py", ["python", "train.py"]):
        assert frameworks.command(alone, alone.members[0], 0, command, "") is command
    assert frameworks.files(alone, alone.members[0]) == {}


# A launcher as simple as can be: it reads the host file and calls the program in place of ssh
# once for each, all at the same time, as mpirun does.
MPIRUN = f"""#!{sys.executable}
import os, shlex, subprocess, sys
places = [line.split()[0] for line in open(os.environ["PRTE_MCA_prte_default_hostfile"])]
line = shlex.join(sys.argv[3:])
rsh = os.environ["PRTE_MCA_plm_ssh_agent"]
ranks = [subprocess.Popen([rsh, "-x", place, line]) for place in places]
sys.exit(max(rank.wait() for rank in ranks))
"""


class Gang:
    """All members of WORLD as real processes, started as an agent starts them."""

    def __init__(self, directory: Path, command: str, launcher: Path) -> None:
        self.directory = directory
        self.command = command
        self.path = f"{launcher}:{os.environ['PATH']}"

    def start(self, member: Member) -> "subprocess.Popen[str]":
        for name, content in frameworks.files(WORLD, member).items():
            self.directory.mkdir(exist_ok=True)
            path = self.directory / name
            path.write_text(content)
            path.chmod(0o700)
        env = frameworks.environment(WORLD, member, 0, str(self.directory))
        return subprocess.Popen(
            frameworks.command(WORLD, member, 0, self.command, str(self.directory)),
            env={"PATH": self.path, "WHO": member.name, **env},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *order: Member) -> dict[str, tuple[int, str]]:
        members = {m.name: self.start(m) for m in order}
        try:
            said = {name: process.communicate(timeout=30)[0] for name, process in members.items()}
        finally:
            for process in members.values():
                process.kill()
        return {name: (members[name].returncode, text) for name, text in said.items()}


@pytest.fixture
def gang(tmp_path):
    launcher = tmp_path / "bin"
    launcher.mkdir()
    (launcher / "mpirun").write_text(MPIRUN)
    (launcher / "mpirun").chmod(0o700)

    def make(command: str) -> Gang:
        return Gang(tmp_path / "world", command, launcher)

    return make


def test_every_rank_runs_inside_its_own_member(gang):
    ended = gang("echo rank of $WHO").run(FIRST, SECOND, THIRD)
    assert ended == {
        name: (0, f"rank of {name}\n") for name in ("worker-0", "worker-1", "worker-2")
    }


def test_places_that_start_first_wait_for_rank_zero(gang):
    ended = gang("echo rank of $WHO").run(THIRD, SECOND, FIRST)
    assert ended["worker-2"] == (0, "rank of worker-2\n")


def test_one_command_may_call_mpirun_twice(gang):
    ended = gang("mpirun -n 3 echo one && mpirun -n 3 echo two").run(SECOND, FIRST, THIRD)
    assert ended == dict.fromkeys(("worker-0", "worker-1", "worker-2"), (0, "one\ntwo\n"))


def test_a_failing_rank_fails_rank_zero_and_releases_the_places(gang):
    ended = gang('[ "$WHO" != worker-1 ] || exit 3').run(FIRST, SECOND, THIRD)
    assert {name: code for name, (code, _) in ended.items()} == {
        "worker-0": 3, "worker-1": 0, "worker-2": 0,
    }  # fmt: skip


def test_places_end_with_a_command_that_never_needed_them(gang):
    ended = gang("echo mpirun").run(FIRST, SECOND, THIRD)
    assert ended == {"worker-0": (0, "mpirun\n"), "worker-1": (0, ""), "worker-2": (0, "")}
