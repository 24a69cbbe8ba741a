"""A member's container, with real processes: YARN's signals reach everything in it."""

import json
import os
import signal
import subprocess
import sys

import pytest
from stage import KEY, name, pid_alive, until

from dromon.agent import process
from dromon.engines.yarn.am import secrets
from dromon.hadoop.credentials import Credentials

START = "import sys; from dromon.engines.yarn.am.member import main; sys.exit(main(sys.argv[1]))"


class Front:
    """The process that YARN knows."""

    def __init__(self, root, job, request, supplied=None, number=1):
        self.root = root
        (root / "logs").mkdir()
        (root / "request.json").write_text(json.dumps(request))
        (root / "tokens").write_bytes(secrets.pack(KEY, supplied or {}, Credentials()))
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HADOOP_TOKEN_FILE_LOCATION": str(root / "tokens"),
            "DROMON_COORDINATOR": job.master.address,
            "DROMON_EPOCH": "1",
            "CONTAINER_ID": name(number),
            "LOG_DIRS": str(root / "logs"),
            "LOCAL_DIRS": str(root),
            "NM_HOST": "127.0.0.1",
            "USER": "al",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, "worker-0"],
            cwd=root,
            env=environment,
            start_new_session=True,
        )

    def log(self, run=1):
        path = self.root / "logs" / f"worker-0.{run}.log"
        return path.read_text() if path.exists() else ""

    def pids(self, count):
        """What the member prints, once it has printed so many numbers."""
        return until(
            lambda: len(found := self.log().split()) >= count and [int(n) for n in found], "pids"
        )


@pytest.fixture
def front(tmp_path, stage, name_node):
    """A container with a member that runs `command`, and its master."""
    made = []

    def start(command, supplied=None, **keys):
        job = stage(command=command, replicas=1, **keys)
        job.master.request["cluster"]["webhdfs"] = [name_node.url]
        job.master.request["python"] = "python3"
        job.grant(1)
        made.append(Front(tmp_path, job, job.master.request, supplied))
        return job, made[-1]

    yield start
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


SLEEPERS = "setsid sleep 100 & echo $!; (sleep 100 & echo $!; wait) & echo $!; echo $$; wait"


def test_a_member_does_its_work_and_leaves_when_all_is_home(front, hdfs):
    words = 'echo "$DROMON_RANK of $DROMON_JOB_NAME"; echo saved > "$DROMON_CHECKPOINT_DIR/a"'
    job, it = front(f"{words}; echo done > out", outputs=["out"])
    assert it.process.wait(30) == 0
    until(lambda: not job._thread.is_alive(), "the master to be done")
    assert job.master.gang.state == "succeeded"
    assert it.log() == "0 of train\n"
    record = job.record
    assert hdfs.read(f"{record}/checkpoints/a") == b"saved\n"
    assert json.loads(hdfs.read(f"{record}/worker-0.1/exit.json"))["code"] == 0
    assert hdfs.read(f"{record}/outputs/out") == b"done\n"
    assert job.master.closing.outputs["out"]["member"] == "worker-0"


def test_a_killed_front_takes_everything_behind_it_along(front):
    _, it = front(SLEEPERS)
    pids = it.pids(4)
    assert all(pid_alive(pid) for pid in pids)
    it.process.kill()
    it.process.wait()
    until(lambda: not any(pid_alive(pid) for pid in pids), "all of them to end")


def test_a_killed_agent_takes_its_member_along(front):
    _, it = front(SLEEPERS)
    pids = it.pids(4)
    (agent,) = process.children(it.process.pid)
    os.kill(agent, signal.SIGKILL)
    assert it.process.wait(30) == 128 + signal.SIGKILL
    assert not any(pid_alive(pid) for pid in pids)


def test_sigterm_is_passed_on_and_the_member_may_save(front):
    job, it = front(
        "trap 'echo saving; exit 0' TERM; echo up; while :; do sleep 0.05; done", stop_grace="10s"
    )
    until(lambda: "up" in it.log(), "the member to be up")
    it.process.send_signal(signal.SIGTERM)
    assert it.process.wait(30) == 0
    assert "saving" in it.log()
    assert job.wait_kind("MemberExited")["exit"]["stopped"] is True


def test_secrets_reach_the_member_and_no_file_that_yarn_collects(front):
    _, it = front('echo "${#TOKEN}"', supplied={"TOKEN": "canary-value"}, secrets=["TOKEN"])
    assert it.process.wait(30) == 0
    assert it.log() == "12\n"
    for path in (it.root / "logs").iterdir():
        assert b"canary" not in path.read_bytes()


def test_the_record_of_a_container_is_its_users_alone(front):
    _, it = front("sleep 100")
    until(lambda: (it.root / "record" / "key").exists(), "the record")
    assert (it.root / "record").stat().st_mode & 0o777 == 0o700
    assert (it.root / "record" / "key").stat().st_mode & 0o777 == 0o600
