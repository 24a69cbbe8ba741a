"""The command as a user has it: real processes, a real daemon, a state directory of its own."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

DROMON = (sys.executable, "-m", "dromon.cli")


class Shell:
    """Runs `dromon` in one folder against one daemon."""

    def __init__(self, home: str, folder: str) -> None:
        self.folder = folder
        keep = ("PATH", "HOME", "USER", "LANG", "PYTHONPATH")
        self.env = {key: os.environ[key] for key in keep if key in os.environ}
        self.env.update(DROMON_HOME=home, DROMON_CACHE=os.path.join(home, "cache"), CANARY="42")

    def __call__(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*DROMON, *words], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def write(self, name: str, text: str) -> None:
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)


@pytest.fixture(scope="module")
def home():
    path = tempfile.mkdtemp(prefix="d", dir="/tmp")
    yield path
    Shell(path, "/")("daemon", "stop")
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def dromon(home, tmp_path):
    return Shell(home, str(tmp_path))


def test_a_script_runs_attached_with_its_own_arguments_streams_and_code(dromon):
    dromon.write(
        "train.py", "import sys; print(sys.argv[1:]); print('e', file=sys.stderr); exit(3)"
    )
    done = dromon("run", "train.py", "--", "--lr", "3", code=3)
    assert done.stdout == "['--lr', '3']\n"
    lines = done.stderr.splitlines()
    assert re.match(r"dromon: job \d+ train-[a-z2-7]{6} \w+", lines[0])
    assert "e" in lines
    assert "failed" in lines[-2]
    assert "exit code 3" in lines[-2]
    assert lines[-1].startswith("next: dromon logs ")


def test_any_command_runs_without_a_file(dromon):
    done = dromon("run", "--", "sh", "-c", "echo $0 $DROMON_RANK; exit 0", "a b")
    assert done.stdout.startswith("a b")
    assert "succeeded in" in done.stderr


def test_a_gangs_lines_carry_the_members_name(dromon):
    dromon.write("job.yaml", "name: pair\nreplicas: 2\ncommand: echo hello\n")
    done = dromon("run", "job.yaml")
    assert sorted(done.stdout.splitlines()) == ["worker-0 | hello", "worker-1 | hello"]


def test_values_of_the_file_change_on_the_command_line(dromon):
    dromon.write("job.yaml", "config: {lr: 1}\ncommand: echo lr=${config.lr}\n")
    assert dromon("run", "job.yaml", "config.lr=0.5").stdout == "lr=0.5\n"


def test_a_variable_and_a_secret_reach_the_job_from_the_callers_environment(dromon):
    words = ("run", "--env", "A=b", "--secret", "CANARY", "--", "sh", "-c", "echo $A $CANARY")
    assert dromon(*words).stdout == "b 42\n"


def test_a_detached_job_is_followed_later(dromon):
    id = dromon("run", "-d", "--name", "later", "--", "echo", "done").stdout.strip()
    attached = dromon("attach", id)
    assert attached.stdout == "done\n"
    assert dromon("logs", id).stdout == "done\n"
    assert dromon("logs", "later", "-f", "-o", "json").stdout.count('"text": "done"') == 1


def test_everything_about_an_ended_job_can_be_asked(dromon):
    dromon.write("train.py", "print('x'); raise SystemExit(4)")
    dromon("run", "train.py", "--name", "asked", code=4)
    listed = json.loads(dromon("ps", "-a", "-o", "json").stdout)
    assert any(job["name"] == "asked" and job["state"] == "failed" for job in listed)
    assert "asked-" in dromon("ps", "-a").stdout
    assert "exit code 4" in dromon("why", "asked").stdout
    shown = dromon("show", "asked").stdout
    for part in ("timeline", "members", "code", "environment", "request", "exit code 4"):
        assert part in shown
    assert json.loads(dromon("show", "asked", "-o", "json").stdout)["status"]["name"] == "asked"


def test_rerun_diff_and_remove(dromon):
    dromon.write("job.yaml", "name: again\nconfig: {lr: 1}\ncommand: echo lr=${config.lr}\n")
    first = dromon("run", "-d", "job.yaml").stdout.strip()
    assert dromon("attach", first).stdout == "lr=1\n"
    assert dromon("rerun", first, "config.lr=2").stdout == "lr=2\n"
    assert "config.lr" in dromon("diff", first, "@last").stdout
    assert dromon("rm", first).stderr == f"dromon: removed {first}\n"
    assert "hint: List jobs" in dromon("show", first, code=64).stderr


def test_a_running_job_is_stopped_and_the_follower_told(dromon):
    id = dromon("run", "-d", "--", "sleep", "60").stdout.strip()
    assert dromon("stop", id, "--grace", "5s").stderr == f"dromon: stopping {id}\n"
    done = dromon("attach", id, code=1)
    assert "stopped" in done.stderr


def test_what_cannot_run_is_refused_with_reasons(dromon):
    dromon.write("bad.yaml", "nmae: x\ncommand: a\nreplicas: many\n")
    refused = dromon("run", "bad.yaml", code=64)
    assert "bad.yaml:1:1: nmae: unknown key" in refused.stderr
    assert "2 problems in bad.yaml" in refused.stderr
    assert dromon("check", "bad.yaml", code=64).stdout.count("bad.yaml:") == 2
    assert "hint:" in dromon("run", "-n", "1", "--gpus", "99", "--", "true", code=65).stderr
    assert "no file none.yaml" in dromon("run", "none.yaml", code=64).stderr


def test_a_starter_file_is_written_checked_planned_and_run(dromon):
    dromon.write("train.py", "print('trained')")
    dromon("init", "train.py")
    assert "exists already" in dromon("init", "train.py", code=64).stderr
    dromon("check", "job.yaml")
    assert "engine: local" in dromon("plan", "job.yaml").stdout
    assert dromon("run", "job.yaml").stdout == "trained\n"


def test_the_schema_is_json_and_the_machine_is_shown(dromon):
    assert "properties" in json.loads(dromon("schema").stdout)
    assert "CPUS FREE" in dromon("nodes").stdout
    assert dromon("daemon", "status").stdout.startswith("pid ")
    dromon("gc", "--dry-run")


def test_ctrl_c_on_a_terminal_stops_a_real_job(dromon):
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(dromon.folder)
        words = [*DROMON, "run", "--", "sh", "-c", "echo up; sleep 60"]
        os.execve(sys.executable, words, {**dromon.env, "NO_COLOR": "1"})
    seen, keys, end = "", ["\x03", "s"], time.monotonic() + 30
    waited = ["up\r\n", "[c]ontinue? "]
    while time.monotonic() < end:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            data = os.read(fd, 4096)
        except OSError:
            break
        if not data:
            break
        seen += data.decode()
        if waited and waited[0] in seen:
            waited.pop(0)
            os.write(fd, keys.pop(0).encode())
    os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130, seen
    assert "dromon: stopping job" in seen
    assert "stopped by" in seen
