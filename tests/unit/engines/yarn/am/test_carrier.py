"""MPI's hand-overs between two containers: real pipes, real shells, messages by the test."""

import os
import subprocess
import threading

import pytest
from stage import until

from dromon.agent.carrier import Carrier
from dromon.frameworks import mpi

AGAIN = 0.1


class Two:
    """Two containers with a member each, and the master that passes words on between them."""

    def __init__(self, root):
        self.roots = {name: root / name for name in ("worker-0", "worker-1")}
        self.said = []
        self.deaf = 0  # so many messages are lost on their way
        self.places = []
        self.lock = threading.Lock()
        self.carriers = {}
        for name, place in self.roots.items():
            place.mkdir()
            self.carriers[name] = Carrier(str(place), name, self._pass_on, AGAIN)

    def world(self, name, attempt=1):
        path = self.roots[name] / "record" / "world" / str(attempt)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _pass_on(self, message):
        with self.lock:
            self.said.append(message)
            if self.deaf:
                self.deaf -= 1
                return
        self.carriers[message["to"]].hear(message)

    def open(self, attempt=1):
        """As the agents do: both are ready, rank 0 has its files, worker-1 waits."""
        for name, carrier in self.carriers.items():
            carrier.open(str(self.world(name, attempt)))
        here = self.world("worker-0", attempt)
        (here / "rsh").write_text(mpi.RSH)
        (here / "rsh").chmod(0o700)
        place = subprocess.Popen(
            ["sh", "-c", mpi.PLACE, str(self.world("worker-1", attempt))],
            env={**os.environ, "DROMON_PLACE": "worker-1"},
        )
        self.places.append(place)
        (here / "hostfile.1").write_text("worker-0 slots=1\nworker-1 slots=1\n")
        (here / "hostfile.1").rename(here / "hostfile")
        return place

    def rsh(self, *words, attempt=1, wait=True):
        """What mpirun does at rank 0."""
        command = [str(self.world("worker-0", attempt) / "rsh"), "worker-1", *words]
        started = subprocess.Popen(command, env={**os.environ, "DROMON_PLACE": "worker-0"})
        if not wait:
            self.places.append(started)
            return started
        return started.wait(20)

    def launch(self, command, attempt=1):
        here = self.world("worker-0", attempt)
        return subprocess.run(
            ["sh", "-c", mpi.LAUNCH, str(here), "sh", "-c", command],
            env={**os.environ, "DROMON_PLACES": "worker-1"},
            timeout=20,
        ).returncode


@pytest.fixture
def two(tmp_path):
    made = Two(tmp_path)
    yield made
    for carrier in made.carriers.values():
        carrier.open("/x/999999")  # whatever waits, waits no more
    for place in made.places:
        if place.poll() is None:
            place.kill()
        place.wait()


def test_a_command_runs_in_the_other_container_and_its_code_comes_back(two, tmp_path):
    two.open()
    assert two.rsh(f"echo $DROMON_PLACE > {tmp_path}/ran; exit 3") == 3
    assert (tmp_path / "ran").read_text() == "worker-1\n"
    assert two.rsh("true") == 0


def test_paths_of_one_container_mean_the_same_place_in_the_other(two):
    two.open()
    root = two.roots["worker-0"]
    assert two.rsh(f"echo here > {root}/file") == 0
    assert not (root / "file").exists()
    assert (two.roots["worker-1"] / "file").read_text() == "here\n"


def test_what_a_node_keeps_in_its_cache_is_found_in_the_cache_of_the_other(two, tmp_path):
    two.open()
    for name, root in two.roots.items():
        (tmp_path / f"cache-{name}").mkdir()
        (root / "environment").symlink_to(tmp_path / f"cache-{name}")
    assert two.rsh(f"echo here > {tmp_path}/cache-worker-0/file") == 0
    assert not (tmp_path / "cache-worker-0" / "file").exists()
    assert (tmp_path / "cache-worker-1" / "file").read_text() == "here\n"


def test_several_commands_leave_nothing_behind(two):
    two.open()
    for code in (0, 5, 0):
        assert two.rsh(f"exit {code}") == code
    names = {p.name for p in two.world("worker-1").iterdir()}
    assert names == {"worker-1"}
    assert {p.name for p in two.world("worker-0").iterdir()} == {"rsh", "hostfile", "worker-1"}


def test_the_end_at_rank_0_ends_the_place_elsewhere(two):
    place = two.open()
    pipe = two.world("worker-0") / "worker-1"
    until(pipe.exists, "the pipe")
    assert two.launch("exit 4") == 4
    assert place.wait(20) == 0


def test_a_launcher_that_ended_before_the_pipes_were_there_ends_the_places_too(two):
    here = two.world("worker-0")
    assert two.launch("true") == 0
    assert (here / "ended").exists()
    assert two.open().wait(20) == 0


def test_what_got_lost_on_its_way_is_said_again_and_done_once(two, tmp_path):
    two.open()
    until((two.world("worker-0") / "worker-1").exists, "the pipe")
    two.deaf = 3
    assert two.rsh(f"echo ran >> {tmp_path}/ran; exit 2") == 2
    assert (tmp_path / "ran").read_text() == "ran\n"
    runs = [m for m in two.said if m["what"] == "run"]
    assert len(runs) > 1
    assert len({(m["name"], m["number"]) for m in runs}) == 1


def test_the_next_attempt_has_pipes_of_its_own(two, tmp_path):
    two.open(1)
    assert two.rsh("exit 1") == 1
    two.open(2)
    assert two.rsh("exit 2", attempt=2) == 2


def test_a_place_without_a_host_file_hands_nothing_over(two):
    two.open()
    assert two.rsh("true") == 0
    assert {m["from"] for m in two.said if m["what"] == "run"} == {"worker-0"}
