"""Two users on one machine: each GPU is one user's at a time, and both can see whose."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dromon.engines.local.engine import LocalEngine

GPUS = 2
# Says which GPU it has, and fails when somebody else is on it.
EXCLUSIVE = """
set -o noclobber
for gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do
  { echo $DROMON_JOB_ID > $IN_USE/$gpu; } || exit 9
done
sleep 0.1
for gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do rm $IN_USE/$gpu; done
"""


@pytest.fixture
def users(serve, tmp_path: Path, monkeypatch) -> Iterator[list[LocalEngine]]:
    monkeypatch.setenv("DROMON_GPU_LOCKS", str(tmp_path / "locks"))
    with serve(fake_gpus=GPUS) as ann, serve(fake_gpus=GPUS) as bob:
        yield [ann, bob]


def test_each_sees_what_the_other_holds_and_gets_what_is_left(users, on, tmp_path):
    ann, bob = users
    theirs = on(ann, tmp_path).run("sleep 60", resources={"gpus": 1})
    on(ann, tmp_path).until(theirs, "running")
    (node,) = bob.nodes()
    assert node.free["gpus"] == 1
    (held,) = [gpu for gpu in node.gpus if gpu["holder"]]
    assert (held["job"], held["holder"]) == (None, theirs)

    jobs = on(bob, tmp_path)
    mine = jobs.run("echo $CUDA_VISIBLE_DEVICES", resources={"gpus": 1})
    jobs.end(mine)
    (line,) = bob.logs(mine, False)
    assert line.text != str(held["index"])

    both = jobs.run("echo got both", resources={"gpus": 2})
    waiting = bob.why(both)
    while waiting is not None and theirs not in waiting.sentence:
        waiting = bob.why(both)
    assert waiting is not None
    ann.stop(theirs, 0.0)
    assert bob.wait(both, 60).state == "succeeded"


def test_no_gpu_is_ever_handed_out_twice(users, on, tmp_path):
    in_use = tmp_path / "in-use"
    in_use.mkdir()
    ids: dict[LocalEngine, list[str]] = {}

    def submit(engine: LocalEngine) -> None:
        jobs = on(engine, tmp_path)
        ids[engine] = [
            jobs.run(EXCLUSIVE, resources={"gpus": 1 + n % 2, "cpus": 0},
                     env={"IN_USE": str(in_use)})
            for n in range(4)
        ]  # fmt: skip

    threads = [threading.Thread(target=submit, args=(engine,)) for engine in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ends = [engine.wait(id, 60).state for engine in users for id in ids[engine]]
    assert ends == ["succeeded"] * 8


def test_a_gpu_stays_held_while_any_process_of_the_job_lives(users, on, tmp_path):
    """Also when the daemon that handed it out is killed."""
    ann, bob = users
    jobs = on(ann, tmp_path)
    id = jobs.run("sleep 60", resources={"gpus": 2})
    jobs.until(id, "running")
    os.kill(int(ann.client.ask("daemon_status")["pid"]), 9)
    assert [gpu["holder"] for gpu in bob.nodes()[0].gpus] == [id, id]
    ann.stop(id, 0.0)
    jobs.end(id)
    assert bob.nodes()[0].free["gpus"] == 2


def test_fake_gpus_of_two_homes_have_nothing_to_do_with_each_other_otherwise(serve, on, tmp_path):
    with serve(fake_gpus=1) as ann, serve(fake_gpus=1) as bob:
        jobs = on(ann, tmp_path)
        id = jobs.run("sleep 60", resources={"gpus": 1})
        jobs.until(id, "running")
        assert bob.nodes()[0].free["gpus"] == 1
