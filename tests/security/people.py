"""Real users of this machine, made for the tests and removed after them, and what they type."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from bench import LIMIT, PROBE, eventually, is_alive, processes

Done = subprocess.CompletedProcess[str]
SITE = """
queues:
  research: {{weight: 1}}
  private: {{submit: {{users: [{bob}]}}}}
priorities:
  normal: {{value: 1000, default: true}}
  urgent: {{value: 10000, submit: {{groups: [{admins}]}}}}
admins: {{groups: [{admins}]}}
"""


@dataclass
class User:
    name: str
    home: Path
    python: str
    env: dict[str, str] = field(default_factory=dict)

    @property
    def uid(self) -> int:
        return pwd.getpwnam(self.name).pw_uid

    def run(self, *command: str, **options: Any) -> Done:
        """As this user, with nothing of ours but the way to Dromon."""
        if "input" not in options:
            options["stdin"] = subprocess.DEVNULL
        own = {"HOME": str(self.home), "USER": self.name, "LOGNAME": self.name, **self.env}
        known = pwd.getpwnam(self.name)
        return subprocess.run(
            command, user=known.pw_uid, group=known.pw_gid,
            extra_groups=os.getgrouplist(self.name, known.pw_gid), env=own,
            cwd=self.home / "work", capture_output=True, text=True, timeout=LIMIT,
            check=False, **options,
        )  # fmt: skip

    def __call__(self, *words: str, code: int = 0) -> Done:
        """`dromon WORDS`; whatever happens, it is nothing Dromon cannot explain."""
        done = self.run(self.python, "-m", "dromon.cli", *words)
        said = f"{self.name}: dromon {' '.join(words)}: {done.returncode}\n{done.stdout}"
        assert done.returncode == code, f"{said}\n{done.stderr}"
        assert "this is a bug" not in done.stderr, done.stderr
        return done

    def submit(self, *words: str) -> str:
        return self("run", "-d", *words).stdout.strip()

    def state(self, id: str) -> str:
        found = json.loads(self("ps", "-a", "-o", "json").stdout)
        return next(str(job["state"]) for job in found if job["id"] == id)

    def until(self, id: str, *states: str) -> None:
        eventually(lambda: self.state(id) in states, lambda: f"{id} is {self.state(id)}", wait=0.1)


@dataclass
class Machine:
    """One that several people share."""

    keeper: User  # whose account the arbiter runs under
    ann: User
    bob: User
    boss: User  # in the group of the admins
    folder: Path

    @property
    def place(self) -> Path:
        return self.folder / "place"

    @property
    def users(self) -> list[User]:
        return [self.keeper, self.ann, self.bob, self.boss]

    def arbiter(self) -> int:
        return int((self.keeper.home / ".local/state/dromon/shared/arbiter.pid").read_text())

    def kill_arbiter(self) -> None:
        pid = self.arbiter()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not is_alive(pid), "a killed arbiter lives on")


def _owner(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def end_all(uids: set[int]) -> None:
    """What users who exist for this test alone have left running."""

    def left() -> list[int]:
        return [pid for pid in processes() if _owner(pid) in uids and is_alive(pid)]

    for pid in left():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    eventually(lambda: not left(), "processes outlive the users of the test")


def python_for_all() -> tuple[str, str]:
    """An interpreter that everybody can run, and the path on which it finds Dromon."""
    if os.getuid() != 0:
        pytest.skip("only root can make users and become them")
    if shutil.which("useradd") is None:
        pytest.skip("there is no useradd to make users with")
    site = os.path.dirname(os.path.dirname(pytest.__file__))
    path = f"{Path(__file__).parents[2] / 'src'}:{site}"
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for python in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        try:
            done = subprocess.run(
                [python, "-c", PROBE], user=65534, group=65534, extra_groups=[], cwd="/",
                env={"PYTHONPATH": path}, capture_output=True, timeout=LIMIT, check=False,
            )  # fmt: skip
        except OSError:
            continue
        if done.returncode == 0:
            return python, path
    pytest.skip("other users can reach no interpreter that has Dromon")


@pytest.fixture(scope="session")
def accounts() -> Iterator[list[tuple[str, Path]]]:
    python_for_all()
    tag = uuid.uuid4().hex[:6]
    base = Path(tempfile.mkdtemp(prefix="dromon-people-", dir="/tmp"))
    base.chmod(0o755)
    admins = f"dr{tag}admins"
    made: list[tuple[str, Path]] = []
    subprocess.run(["groupadd", admins], check=True)
    try:
        for person in ("keeper", "ann", "bob", "boss"):
            name = f"dr{tag}{person}"
            groups = ["-G", admins] * (person == "boss")
            home = base / person
            subprocess.run(["useradd", "-M", "-d", str(home), *groups, name], check=True)
            made.append((name, home))
        yield made
    finally:
        for name, _ in made:
            subprocess.run(["userdel", name], check=False, capture_output=True)
        subprocess.run(["groupdel", admins], check=False, capture_output=True)
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def machine(accounts: list[tuple[str, Path]]) -> Iterator[Machine]:
    """Two pretended GPUs, a site file, nobody's arbiter yet."""
    python, path = python_for_all()
    folder = Path(tempfile.mkdtemp(prefix="dromon-shared-", dir="/tmp"))
    folder.chmod(0o1777)
    (folder / "site.yaml").write_text(
        SITE.format(bob=accounts[2][0], admins=accounts[0][0].replace("keeper", "admins"))
    )
    env = {
        "PATH": os.environ["PATH"], "PYTHONPATH": path, "DROMON_FAKE_GPUS": "2",
        "DROMON_SHARED": str(folder / "place"), "DROMON_SITE": str(folder / "site.yaml"),
        "DROMON_FAKE_PROCESSES": str(folder / "processes.json"), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    users = [User(name, home, python, env) for name, home in accounts]
    for user in users:
        (user.home / "work").mkdir(parents=True)
        for made in (user.home, user.home / "work"):
            os.chown(made, user.uid, -1)
            made.chmod(0o700)
    (folder / "site.yaml").chmod(0o644)
    try:
        yield Machine(*users, folder)
    finally:
        end_all({user.uid for user in users})
        for user in users:
            shutil.rmtree(user.home, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
