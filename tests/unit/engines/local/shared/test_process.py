"""A real arbiter and real daemons, all of one user: two state directories are two daemons."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dromon.engines.local.shared import control, neighbours, place
from dromon.engines.local.shared.people import person
from dromon.errors import Refused, UsageError

ME = person(os.getuid()).name
LIVES: list["subprocess.Popen[bytes]"] = []  # arbiters of the test that runs


@pytest.fixture
def shared(tmp_path_factory, monkeypatch: pytest.MonkeyPatch) -> Iterator[place.Place]:
    """This account shares the machine, with two pretended GPUs."""
    folder = tmp_path_factory.mktemp("s")
    monkeypatch.setenv("DROMON_HOME", str(folder / "arbiter"))
    monkeypatch.setenv("DROMON_SHARED", str(folder / "p"))
    monkeypatch.setenv("DROMON_FAKE_GPUS", "2")
    monkeypatch.delenv("DROMON_GPU_LOCKS", raising=False)
    monkeypatch.chdir(folder)
    start(folder)
    at = place.find()
    assert at is not None
    yield at
    control.unshare()
    while LIVES:
        LIVES.pop().wait(30)


def start(folder: Path) -> None:
    """Also as root: what only root does has tests of its own."""
    ready, theirs = os.pipe()
    module = "dromon.engines.local.shared.process"
    words = ["--place", str(folder / "p"), "--state", str(folder / "state"), "--fake-gpus", "2"]
    command = [sys.executable, "-m", module, *words, "--ready", str(theirs)]
    LIVES.append(subprocess.Popen(command, pass_fds=(theirs,), cwd="/"))
    os.close(theirs)
    assert os.read(ready, 1) == b"1"
    os.close(ready)


def test_two_daemons_share_what_there_is_and_do_what_the_arbiter_says(
    shared: place.Place, serve, on, tmp_path: Path
):
    with serve(fake_gpus=2) as one, serve(fake_gpus=2) as two:
        first = on(one, tmp_path).run("sleep 600", resources={"gpus": 2, "cpus": 0.1})
        on(one, tmp_path).until(first, "running")
        jobs = on(two, tmp_path)
        second = jobs.run("echo $CUDA_VISIBLE_DEVICES", resources={"gpus": 1, "cpus": 0.1})
        waiting = two.why(second)
        assert waiting is not None
        assert first in waiting.sentence
        (node,) = two.nodes()
        assert [gpu["holder"] for gpu in node.gpus] == [first, first]
        assert node.free["gpus"] == 0
        assert {job.id: job.state for job in neighbours.jobs()} == {
            f"{ME}/{first}": "running",
            f"{ME}/{second}": "queued",
        }
        with pytest.raises(Refused, match="can never"):
            jobs.run("true", resources={"gpus": 3})
        assert neighbours.stop(f"{ME}/{first}", 0.0)["active"]
        assert two.wait(second, 60).state == "succeeded"
        assert neighbours.status(f"{ME}/{first}").state == "ended"
        assert [line.text for line in two.lines(f"{ME}/{second}", follow=False)] == ["0"]
        done = [(each["action"], each["subject"]) for each in one.audit(10)]
        assert ("stop", f"{ME}/{first}") in done
        assert one.report(0.0)["users"][0]["name"] == ME


def test_halves_of_one_gpu_are_held_by_two_daemons_together(
    shared: place.Place, serve, on, tmp_path: Path
):
    half = {"gpus": 0.5, "cpus": 0.1}
    with serve(fake_gpus=2) as one, serve(fake_gpus=2) as two:
        devices = []
        for engine in (one, two):
            id = on(engine, tmp_path).run("sleep 600", resources=half)
            on(engine, tmp_path).until(id, "running")
            devices.append(engine.status(id).members[0].gpus)
        assert devices[0] == devices[1]


def test_a_daemon_goes_on_with_an_arbiter_that_was_killed_and_came_back(
    shared: place.Place, serve, on, tmp_path: Path
):
    with serve(fake_gpus=2) as one:
        jobs = on(one, tmp_path)
        runs = jobs.run("sleep 600", resources={"gpus": 2, "cpus": 0.1})
        jobs.until(runs, "running")
        status = control.status()
        assert status is not None
        os.kill(int(status["pid"]), signal.SIGKILL)
        waits = jobs.run("true", resources={"gpus": 1, "cpus": 0.1})
        waiting = one.why(waits)
        while waiting is not None and waiting.reason != "arbiter away":
            waiting = one.why(waits)
        assert waiting is not None
        start(Path(shared.root).parent)
        while (waiting := one.why(waits)) is None or runs not in waiting.sentence:
            assert waiting is not None, "what runs was forgotten"
        one.stop(runs, 0.0)
        assert one.wait(waits, 60).state == "succeeded"


def test_a_drained_machine_and_a_queue_in_which_others_wait_are_told(
    shared: place.Place, serve, on, tmp_path: Path
):
    with serve(fake_gpus=2) as one, serve(fake_gpus=2) as two:
        one.client.ask("queue_set", queue="a", settings=["weight=1"])
        one.client.ask("node_drain", drain=True)
        id = on(two, tmp_path).run("true", queue="a")
        waiting = two.why(id)
        assert waiting is not None
        assert "is drained, and nothing starts" in waiting.sentence
        assert waiting.unblock == ("dromon node open",)
        # The jobs of the other daemon are not those of whoever removes the queue.
        with pytest.raises(UsageError, match=f"queue a still has 1 job: {ME}/{id}"):
            one.client.ask("queue_remove", queue="a")
        one.client.ask("node_drain", drain=False)
        assert two.wait(id, 60).state == "succeeded"
        one.client.ask("queue_remove", queue="a")


def test_a_gang_of_one_daemon_gives_members_back_for_the_job_of_another(
    shared: place.Place, serve, on, tmp_path: Path
):
    with serve(fake_gpus=2) as one, serve(fake_gpus=2) as two:
        work = {"resources": {"gpus": 1, "cpus": 0.1}, "stop_grace": 2}
        gang = on(one, tmp_path).run("sleep 600", replicas=2, min=1, gang_wait=0, **work)
        on(one, tmp_path).until(gang, "running")
        assert len(one.status(gang).members) == 2
        other = on(two, tmp_path).run("true", **work)
        assert two.wait(other, 60).state == "succeeded"
        status = next(each for each in one.watch(gang) if each.attempt == 2 and each.members)
        assert [member.member for member in status.members] == ["worker-0"]
        words = f"goes from 2 to 1 member, to make room for {other}"
        timeline = one.client.ask("show", ref=gang)["timeline"]
        assert words in [each.get("detail", {}).get("message") for each in timeline]
        assert status.verdict is None
