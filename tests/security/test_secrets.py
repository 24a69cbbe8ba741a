"""A canary for a secret: where it may stand, and that it stands nowhere else.

While the job waits or runs: in one file of the state directory that only its owner can read, and
in the environment of the member's own processes. Afterwards: nowhere.
"""

import base64
import os
import secrets
import stat
from pathlib import Path

import pytest
from bench import Bench, eventually, is_alive, processes

MEMBER = """
import os, sys, time
secret, null = os.environ["CANARY"], os.environ["NULL_CANARY"]
print("it is", secret, "and", null)
print("half a line:", secret, end="", flush=True)
time.sleep(0.1)
print(f"[{null}]", file=sys.stderr)
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
if len(sys.argv) > 2:
    raise RuntimeError(f"cannot log in with {secret}")
"""


class Canary:
    """Two values that stand nowhere by chance, and the search for them."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.values = {
            name: f"canary-{secrets.token_hex(12)}" for name in ("CANARY", "NULL_CANARY")
        }
        self.go = bench.folder.parent / "go"
        (bench.folder.parent / "tmp").mkdir()
        # What the daemon starts with: whatever it or its helpers write goes below one folder.
        self.around = {"TMPDIR": str(bench.folder.parent / "tmp"),
                       "DROMON_CACHE": str(bench.folder.parent / "cache")}  # fmt: skip
        bench("daemon", "start", env={**self.around, **self.values})
        bench.write("member.py", MEMBER)
        bench.write("job.yaml", (
            "name: canary\nsecrets: [CANARY]\nenv: {NULL_CANARY: null}\n"
            f"command: [python, member.py, {self.go}]\n"
        ))  # fmt: skip

    def is_in(self, data: bytes) -> bool:
        plain = [value.encode() for value in self.values.values()]
        return any(p in data or base64.b64encode(p).rstrip(b"=")[:-2] in data for p in plain)

    def files(self, root: Path) -> list[str]:
        """Of all files below `root`, those that hold it."""
        found = []
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder, name)
                try:
                    if not stat.S_ISREG(path.lstat().st_mode):
                        continue
                    if self.is_in(path.read_bytes()):
                        found.append(str(path.relative_to(root)))
                except FileNotFoundError:
                    continue
        return found

    def processes(self) -> dict[int, set[str]]:
        """Of all processes but this one, those that show it, and in what."""
        found: dict[int, set[str]] = {}
        for pid in processes():
            for what in ("cmdline", "environ", "comm"):
                try:
                    data = Path(f"/proc/{pid}/{what}").read_bytes()
                except OSError:
                    continue
                if pid != os.getpid() and self.is_in(data):
                    found.setdefault(pid, set()).add(what)
        return found

    def said(self, id: str) -> None:
        """No command tells it."""
        for words in (
            ("ps", "-a", "-o", "json"), ("ps", "-a"), ("show", id, "-o", "json"), ("show", id),
            ("why", id), ("logs", id), ("logs", id, "-o", "json"), ("daemon", "logs"), ("nodes",),
            ("daemon", "status"),
        ):  # fmt: skip
            done = self.bench(*words)
            assert not self.is_in((done.stdout + done.stderr).encode()), words

    def submit(self, *words: str) -> str:
        return self.bench.submit("job.yaml", *words, env={**self.around, **self.values})

    def elsewhere(self) -> list[str]:
        """Files outside of the state directory that hold it: the work, the cache, the scratch."""
        return self.files(self.bench.folder.parent)


@pytest.fixture
def canary(bench: Bench) -> Canary:
    return Canary(bench)


def the_only_file(canary: Canary, id: str) -> None:
    home = canary.bench.home
    kept = home / "secrets" / f"{id}.json"
    assert canary.files(home) == [str(kept.relative_to(home))]
    assert canary.elsewhere() == []
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700


def nowhere(canary: Canary, id: str) -> None:
    assert canary.files(canary.bench.home) == []
    assert os.listdir(canary.bench.home / "secrets") == []
    assert canary.processes() == {}
    canary.said(id)


def test_a_queued_jobs_secret_stands_in_one_private_file(bench: Bench, canary: Canary):
    blocker = bench.submit("--cpus", str(os.cpu_count()), "--", "sleep", "600")
    bench.until(blocker, "running")
    id = canary.submit("resources.cpus=1")
    the_only_file(canary, id)
    assert canary.processes() == {}
    canary.said(id)
    bench("stop", id)
    bench.over(id)
    nowhere(canary, id)
    bench("stop", blocker, "--grace", "0")


def test_a_running_jobs_secret_stands_in_the_members_environment_alone(
    bench: Bench, canary: Canary
):
    id = canary.submit()
    eventually(lambda: "ready" in bench.text(id), "it never came up")
    the_only_file(canary, id)
    shown = canary.processes()
    assert shown, "the member has it in its environment"
    assert set(shown) == set(bench.members(id))
    assert all(what == {"environ"} for what in shown.values()), shown
    assert bench.daemon() not in shown
    assert bench.launcher() not in shown
    assert bench.agent(id) not in shown
    canary.said(id)
    log = bench.text(id)
    assert "it is *** and ***" in log
    assert "half a line: ***" in log
    bench.kill_daemon()  # the next one must still have it, and hide it as well
    bench("ps")
    the_only_file(canary, id)
    canary.go.touch()
    assert bench.over(id)["state"] == "succeeded"
    nowhere(canary, id)


def test_a_traceback_does_not_tell_the_secret(bench: Bench, canary: Canary):
    id = canary.submit(f"command=[python, member.py, {canary.go}, fail]")
    canary.go.touch()
    job = bench.over(id)
    assert canary.elsewhere() == []
    assert job["state"] == "failed"
    assert "RuntimeError: cannot log in with ***" in job["verdict"]["message"]
    nowhere(canary, id)


def test_a_retried_job_still_has_its_secret_and_a_rerun_needs_it_anew(bench: Bench, canary: Canary):
    canary.go.touch()
    id = canary.submit(f"command=[python, member.py, {canary.go}, fail]", "retries.max=1",
                       "retries.backoff=0s")  # fmt: skip
    job = bench.over(id)
    assert job["attempt"] == 2
    assert "***" in job["verdict"]["message"]
    nowhere(canary, id)
    refused = bench("rerun", id, code=65)
    assert "not set in your environment: CANARY, NULL_CANARY" in refused.stderr
    bench("rerun", id, code=1, env=dict(canary.values))
    nowhere(canary, id)


def test_a_daemon_killed_at_the_wrong_moment_leaves_no_secret_behind(bench: Bench, canary: Canary):
    """One that was written for a job that was never accepted, and one whose job has ended."""
    canary.go.touch()
    id = canary.submit()
    bench.over(id)
    bench.kill_daemon()
    for name in (id, "never-accepted"):
        path = bench.home / "secrets" / f"{name}.json"
        path.write_text(canary.values["CANARY"])
        path.chmod(0o600)
    bench("ps")
    nowhere(canary, id)


def test_a_refused_jobs_secret_is_not_kept(bench: Bench, canary: Canary):
    done = bench("run", "job.yaml", "resources.gpus=64", code=65, env=dict(canary.values))
    assert not canary.is_in(done.stderr.encode())
    assert os.listdir(bench.home / "secrets") == []
    assert canary.files(bench.home) == []


def test_a_variable_that_every_job_inherits_is_not_recorded_when_it_is_a_secret(bench: Bench):
    value = f"canary-{secrets.token_hex(12)}"
    done = bench("run", "--secret", "LC_TOKEN", "--", "sh", "-c", "test -n $LC_TOKEN && echo has",
                 env={"LC_TOKEN": value})  # fmt: skip
    assert done.stdout == "has\n"
    assert value not in bench("show", "@last", "-o", "json").stdout


def test_every_file_of_the_state_directory_is_private(bench: Bench, canary: Canary):
    """The directory itself keeps others out; what matters most does so once more by itself."""
    id = canary.submit()
    eventually(lambda: "ready" in bench.text(id), "it never came up")
    home, record = bench.home, bench.record(id)
    for path in (home, home / "secrets", home / "jobs", home / "blobs", Path(record.root)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    for path in (
        home / "journal.db", home / "journal.db-wal", home / "journal.db-shm", home / "daemon.pid",
        home / "daemon.sock", home / "agents.sock", home / "secrets" / f"{id}.json",
        Path(record.key), Path(record.log("worker-0", 1)),
    ):  # fmt: skip
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    canary.go.touch()
    bench.over(id)
    eventually(lambda: not os.path.exists(record.key), "the job's key outlives it")


# ---- secrets from a file ------------------------------------------------------------------------


def test_secrets_come_from_a_file_that_only_its_owner_can_read(bench: Bench, canary: Canary):
    text = "# for the tracker\n\nexport CANARY={CANARY}\nNULL_CANARY = '{NULL_CANARY}'\nOTHER=x\n"
    file = bench.folder.parent / "keys"
    file.write_text(text.format(**canary.values))
    file.chmod(0o644)
    refused = bench("run", "job.yaml", "--secrets-file", str(file), code=64)
    assert "others may read it (mode 0644)" in refused.stderr
    assert f"hint: `chmod 600 {file}`" in refused.stderr
    file.chmod(0o600)
    canary.go.touch()
    done = bench("run", "job.yaml", "--secrets-file", str(file))
    assert "it is *** and ***" in done.stdout
    id = bench.status("@last")["id"]
    nowhere(canary, id)
    assert canary.elsewhere() == ["keys"]
    bench("plan", "job.yaml", "--secrets-file", str(file))
    assert "it is *** and ***" in bench("rerun", id, "--secrets-file", str(file)).stdout
    asked = bench("run", "--secrets-file", str(file), "--secret", "CANARY", "--", "sh", "-c",
                  "echo ${CANARY:+has} ${OTHER:-not}")  # fmt: skip
    assert asked.stdout == "has not\n", "only what is asked for is given"


@pytest.mark.parametrize("content", ["no value here", "=x", "1A=x", "\udcff=1"])
def test_a_file_of_secrets_that_is_none_is_refused_without_telling_a_line_of_it(
    bench: Bench, content: str
):
    file = bench.folder.parent / "keys"
    file.write_bytes(content.encode(errors="surrogateescape"))
    file.chmod(0o600)
    refused = bench("run", "--secrets-file", str(file), "--", "true", code=64)
    assert "hint: A file of secrets has a NAME=VALUE on each line." in refused.stderr
    assert content not in refused.stderr


def test_a_missing_file_of_secrets_and_a_missing_secret_are_told(bench: Bench):
    refused = bench("run", "--secrets-file", "none", "--", "true", code=64)
    assert "cannot read none: No such file" in refused.stderr
    refused = bench("run", "--secret", "NOT_SET_ANYWHERE", "--", "true", code=65)
    assert "NOT_SET_ANYWHERE" in refused.stderr
    assert "--secrets-file" in refused.stderr
    assert not [p for p in bench.members("true") if is_alive(p)]
