"""The command line on a real cluster: contexts, submitting, following, asking, stopping."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbeds.yarn.bed import Bed
from testbeds.yarn.plan import GPUS, QUEUES
from yarnjobs import PATIENCE, until

from dromon.hadoop import addresses, site

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

DROMON = (sys.executable, "-m", "dromon.cli")


class Machine:
    """Somebody's machine: a state directory and contexts of its own, and the `dromon` command."""

    def __init__(self, folder: Path, python: Path | None = None) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="d", dir="/tmp"))
        self.work = folder
        self.work.mkdir(parents=True, exist_ok=True)
        keep = ("PATH", "HOME", "USER", "LANG", "PYTHONPATH")
        self.env = {key: os.environ[key] for key in keep if key in os.environ}
        self.env.update(
            # Beside the work, not in it: each job would ship the archives of those before it.
            DROMON_HOME=str(self.home), DROMON_CACHE=str(folder.parent / "cache"),
            DROMON_CONFIG=str(folder.parent / "config"), NO_COLOR="1",
        )  # fmt: skip
        if python is not None:
            self.env["VIRTUAL_ENV"] = str(python)

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*DROMON, *words], cwd=self.work, env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=180,
        )  # fmt: skip
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def close(self) -> None:
        self("daemon", "stop")
        shutil.rmtree(self.home, ignore_errors=True)


@pytest.fixture(scope="module")
def machine(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    # An environment with nothing in it: what is packed and uploaded should not take the time.
    bare = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(bare, with_pip=False)
    made = Machine(tmp_path_factory.mktemp("machine") / "work", bare)
    made("context", "add", "bed", "--yarn", bed.plan.conf())
    yield made
    made.close()


@pytest.fixture
def another(bed: Bed, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "work")
    made("context", "add", "there", "--yarn", bed.plan.conf(), "--no-check")
    yield made
    made.close()


def web(bed: Bed) -> str:
    files = {path.name: path.read_text() for path in Path(bed.plan.conf()).glob("*.xml")}
    (manager,) = addresses.resource_managers(site.load(files, {}, {}))
    return manager.web


def wait_for(machine: Machine, ref: str, state: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while json.loads(machine("show", ref, "-o", "json").stdout)["status"]["state"] != state:
        assert time.monotonic() < deadline, machine("show", ref).stdout
        time.sleep(0.5)


def test_a_context_by_directory_and_by_address_says_what_it_found(bed: Bed, machine: Machine):
    for where in (bed.plan.conf(), web(bed)):
        err = machine("context", "add", "tried", "--yarn", where).stderr
        assert re.search(r"version +3\.", err), err
        assert re.search(rf"nodes +{len(bed.plan.nodes)}\n", err), err
        assert all(name in err for name in QUEUES), err
        assert "CPUS FREE" in machine("nodes", "--on", "tried").stdout
    machine("context", "remove", "tried")


def test_a_wrong_address_is_one_clear_message_and_no_context(machine: Machine):
    done = machine("context", "add", "wrong", "--yarn", "http://127.0.0.1:9", code=69)
    assert len(done.stderr.splitlines()) == 2
    assert "127.0.0.1:9" in done.stderr
    assert "wrong" not in machine("context", "list").stdout


def test_yarn_is_the_only_context_or_the_environments(bed: Bed, machine: Machine, tmp_path: Path):
    assert "default" in machine("queues", "--on", "yarn").stdout
    alone = Machine(tmp_path / "work")
    try:
        assert "dromon context add" in alone("queues", "--on", "yarn", code=64).stderr
        alone.env["HADOOP_CONF_DIR"] = bed.plan.conf()
        assert "default" in alone("queues", "--on", "yarn").stdout
    finally:
        alone.close()


def test_nodes_and_queues_are_those_of_the_cluster(bed: Bed, machine: Machine):
    nodes = json.loads(machine("nodes", "--on", "bed", "-o", "json").stdout)
    assert len(nodes) == len(bed.plan.nodes)
    assert sorted(node["total"]["gpus"] for node in nodes) == [0, GPUS]
    assert "GPUS FREE" in machine("nodes", "--on", "bed").stdout
    queues = json.loads(machine("queues", "--on", "bed", "-o", "json").stdout)
    assert set(QUEUES) <= {queue["name"] for queue in queues}
    leaves = [queue for queue in queues if queue["name"] in QUEUES]
    assert sum(queue["capacity"] for queue in leaves) == pytest.approx(1)
    assert {queue["state"] for queue in leaves} == {"running"}


def test_a_job_runs_attached_and_everything_can_be_asked_of_it(machine: Machine):
    (machine.work / "job.yaml").write_text(
        "name: pair\nreplicas: 2\ncommand: echo hello from $DROMON_RANK\n"
        "resources: {cpus: 1, memory: 256MiB}\n"
    )
    done = machine("run", "job.yaml", "--on", "bed")
    assert sorted(done.stdout.splitlines()) == [
        "worker-0 | hello from 0", "worker-1 | hello from 1",
    ]  # fmt: skip
    lines = done.stderr.splitlines()
    (id,) = re.findall(r"^dromon: job (pair-[a-z2-7]{6}) on bed queued", done.stderr, re.M)
    assert any("http://" in line and "application_" in line for line in lines), lines
    assert any(f"job {id} on bed succeeded in" in line for line in lines), lines
    assert lines[-1] == f"next: dromon show {id} · dromon logs {id} · dromon rerun {id}"
    # Without --on from now on: it is known here.
    assert sorted(machine("logs", "pair").stdout.splitlines()) == sorted(done.stdout.splitlines())
    assert "worker-1" not in machine("logs", "pair", "--rank", "0").stdout
    shown = json.loads(machine("show", "pair", "-o", "json").stdout)
    assert shown["status"]["on"] == "bed"
    assert shown["application"].startswith("application_")
    assert {member["member"] for member in shown["members"]} == {"worker-0", "worker-1"}
    assert shown["timeline"]
    assert f"job {id} on bed  succeeded" in machine("show", id).stdout
    assert "succeeded" in machine("why", id).stdout
    assert machine("attach", id).returncode == 0
    assert machine("stop", id).stderr == "dromon: nothing to stop: it has ended already\n"


def test_a_failed_job_has_its_own_code_and_verdict(machine: Machine):
    done = machine("run", "--on", "bed", "--memory", "256MiB", "--name", "bad", "--",
                   "sh", "-c", "echo oh >&2; exit 3", code=3)  # fmt: skip
    assert "failed" in done.stderr
    assert "exit code 3" in machine("why", "bad").stdout
    listed = json.loads(machine("ps", "-a", "--on", "bed", "-o", "json").stdout)
    assert [job["state"] for job in listed if job["name"] == "bad"] == ["failed"]


def test_a_running_job_is_listed_followed_from_another_machine_and_stopped(
    machine: Machine, another: Machine
):
    script = "echo up; trap 'echo bye; exit 0' TERM; while :; do sleep 0.1; done"
    id = machine("run", "-d", "--on", "bed", "--memory", "256MiB", "--name", "long", "--",
                 "bash", "-c", script).stdout.strip()  # fmt: skip
    wait_for(machine, id, "running")
    here = machine("run", "-d", "--name", "mine", "--", "sleep", "100").stdout.strip()

    def rows() -> list[list[str]]:
        return [line.split() for line in machine("ps").stdout.splitlines()]

    # `ps` goes without a place that takes its time, as a busy one may.
    assert until(lambda: ["-", id, "bed", "running"] in [row[:4] for row in rows()]), rows()
    found = rows()
    assert "ON" in found[0]
    assert [here, "local"] in [row[1:3] for row in found]
    machine("stop", here, "--grace", "0")
    assert "no job" in another("logs", id, code=64).stderr
    with subprocess.Popen(
        [*DROMON, "attach", id, "--on", "there"], cwd=another.work, env=another.env,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as follower:  # fmt: skip
        assert follower.stdout
        assert follower.stderr
        assert follower.stdout.readline() == "up\n"
        assert machine("stop", "long").stderr == f"dromon: stopping {id}\n"
        rest, err = follower.communicate(timeout=120)
        assert "bye" in rest
        assert "stopped" in err
    assert "up\n" in another("logs", id).stdout  # attached once, known from then on


def test_logs_are_followed_while_they_come(machine: Machine):
    script = "for i in 1 2 3; do echo line $i; sleep 1; done"
    id = machine("run", "-d", "--on", "bed", "--memory", "256MiB", "--name", "slow", "--",
                 "bash", "-c", script).stdout.strip()  # fmt: skip
    done = machine("logs", id, "-f")
    assert done.stdout == "line 1\nline 2\nline 3\n"
    assert "succeeded" in done.stderr


def test_a_job_is_run_again_compared_and_removed(machine: Machine):
    (machine.work / "again.yaml").write_text(
        "name: again\nconfig: {lr: 1}\ncommand: echo lr=${config.lr}\n"
        "resources: {cpus: 1, memory: 256MiB}\n"
    )
    first = machine("run", "-d", "again.yaml", "--on", "bed").stdout.strip()
    assert machine("attach", first).stdout == "lr=1\n"
    assert machine("rerun", first, "config.lr=2").stdout == "lr=2\n"
    assert "config.lr" in machine("diff", first, "@last").stdout
    assert machine("rm", first).stderr == f"dromon: removed {first}\n"
    machine("gc", "--on", "bed")


def test_plan_compares_this_machine_and_the_cluster(machine: Machine):
    (machine.work / "plan.yaml").write_text("command: echo\nstop_grace: 10m\n")
    out = machine("plan", "plan.yaml", "--on", "local,bed").stdout
    assert out.splitlines()[0].startswith("# local  grace 10m")
    assert re.search(r"^# bed    grace ", out, re.M)
    assert "Kerberos is not proven" in out
    listed = json.loads(machine("ps", "-a", "--on", "bed", "-o", "json").stdout)
    assert not any(job["id"].endswith("-aaaaaa") for job in listed)


def test_an_impossible_job_and_a_wrong_queue_are_refused_with_the_reason(machine: Machine):
    refused = machine("run", "--on", "bed", "--memory", "900GiB", "--", "true", code=65)
    assert len(refused.stderr.splitlines()) == 2, refused.stderr
    refused = machine("run", "--on", "bed", "--queue", "reserch", "--", "true", code=65)
    assert "research" in refused.stderr


def test_ctrl_c_stops_the_job_on_the_cluster(machine: Machine):
    with subprocess.Popen(
        [*DROMON, "run", "--on", "bed", "--memory", "256MiB", "--name", "cut", "--",
         "sh", "-c", "echo up; sleep 300"],
        cwd=machine.work, env=machine.env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as client:  # fmt: skip
        assert client.stdout
        assert client.stderr
        assert client.stdout.readline() == "up\n", client.stderr.read()
        client.send_signal(signal.SIGINT)
        _, err = client.communicate(timeout=120)
        assert client.returncode == 130, err
    assert "stopping job cut-" in err
