"""MPI's hand-over between places that share no directory, with the real scripts of both ends."""

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dromon.engines.yarn.am.carrier import Carrier
from dromon.frameworks import mpi

Message = dict[str, Any]


class Network:
    """Between carriers, as the master is; what `drops` says is lost."""

    def __init__(self) -> None:
        self.carriers: dict[str, Carrier] = {}
        self.drops: Callable[[Message], bool] = lambda message: False
        self.lost: list[Message] = []

    def say(self, message: Message) -> None:
        if self.drops(message):
            self.lost.append(message)
        else:
            threading.Thread(target=self.carriers[message["to"]].hear, args=(message,)).start()


class Place:
    """A container, and its member's process."""

    def __init__(self, root: Path, name: str, network: Network) -> None:
        self.root, self.name = root / name, name
        self.world = self.root / "record" / "world" / "0"
        network.carriers[name] = self.carrier = Carrier(
            str(self.root), name, network.say, again=0.1
        )
        self.env = {
            "PATH": os.environ["PATH"], "DROMON_PLACE": name, "DROMON_PLACES": "worker-1",
            "WHERE": str(self.root),
        }  # fmt: skip

    def wait(self) -> "subprocess.Popen[bytes]":
        words = ["sh", "-c", mpi.PLACE, str(self.world)]
        return subprocess.Popen(words, env=self.env)

    def launch(self, command: str) -> "subprocess.Popen[bytes]":
        self.world.mkdir(parents=True)
        (self.world / "rsh").write_text(mpi.RSH)
        (self.world / "rsh").chmod(0o755)
        (self.world / "hostfile").write_text("worker-0 slots=1\nworker-1 slots=1\n")
        words = ["sh", "-c", mpi.LAUNCH, str(self.world), "sh", "-c", command]
        return subprocess.Popen(words, env={**self.env, "RSH": str(self.world / "rsh")})


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def places(tmp_path: Path, network: Network) -> tuple[Place, Place]:
    return Place(tmp_path, "worker-0", network), Place(tmp_path, "worker-1", network)


def test_command_runs_at_its_place_and_its_code_comes_back(places, tmp_path):
    here, there = places
    for place in places:
        place.carrier.open(str(place.world))
    waiting = there.wait()
    command = f"echo $WHERE {here.root}/file >{tmp_path}/said; exit 5"
    done = here.launch(f"$RSH -x worker-1 '{command}'")
    assert done.wait(20) == 5
    assert waiting.wait(20) == 0  # it was told the end
    # What was below the one container's directory is below the other's.
    assert (tmp_path / "said").read_text().split() == [str(there.root), f"{there.root}/file"]


@pytest.mark.parametrize("what", ["run", "code", "end", "heard"])
def test_what_is_lost_on_the_way_is_said_again_and_done_once(places, network, tmp_path, what):
    network.drops = lambda message: message["what"] == what and len(network.lost) < 3
    here, there = places
    for place in places:
        place.carrier.open(str(place.world))
    waiting = there.wait()
    done = here.launch(f"$RSH worker-1 'echo once >>{tmp_path}/said; exit 3'")
    assert done.wait(20) == 3
    assert waiting.wait(20) == 0
    assert (tmp_path / "said").read_text() == "once\n"
    assert len(network.lost) == 3


def test_launcher_that_ended_at_once_ends_the_places_too(places):
    here, there = places
    done = here.launch("exit 2")
    assert done.wait(20) == 2
    waiting = there.wait()
    for place in places:  # only now there are pipes
        place.carrier.open(str(place.world))
    assert waiting.wait(20) == 0
