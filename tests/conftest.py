"""What every test may ask for: a state directory of its own, and the command line over it.

No fakes of our own modules here. What a test leaves running is a fault of that test.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import settings

# A busy machine is no failure: nothing here asserts on elapsed time.
settings.register_profile("dromon", deadline=None, print_blob=True)
settings.load_profile("dromon")

# A shell that runs us in the background, or nohup, has these ignored, and all we start would
# inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.environ["DROMON_SITE"] = ""  # a site file this machine has is not for tests
os.environ["DROMON_SHARED"] = ""  # nor is an arbiter
os.environ["DROMON_CONFIG"] = "/nonexistent"  # nor are the contexts of whoever runs them

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SETTLE = 10.0  # seconds that ended members and a stopped daemon get to be gone
# Markers whose tests have a make target of their own.
ELSEWHERE = {
    "frameworks": "test-frameworks",
    "faults": "test-faults",
    "cluster": "test-yarn and test-kubernetes",
}
REQUIRED = (
    "DROMON_REQUIRE_CLUSTERS"  # =1: nothing may be left out for want of a cluster or packages
)
left_out: "pytest.StashKey[Counter[str]]" = pytest.StashKey()


# ---- what a machine may lack --------------------------------------------------------------------


@pytest.fixture(scope="session")
def lacking() -> Callable[[str], NoReturn]:
    """Leaves a test out for want of something; where nothing may be left out, fails it."""

    def leave_out(reason: str) -> NoReturn:
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(f"{reason} ({REQUIRED}=1)")
        pytest.skip(reason)

    return leave_out


@pytest.fixture(scope="session")
def registry(lacking: Callable[[str], NoReturn]) -> Callable[[str], None]:
    """Hears why an environment could not be made: without packages to be had it says nothing."""

    def hear(message: str) -> None:
        if any(word in message for word in ("connect", "dns", "fetch", "timed out")):
            lacking(f"no package registry answers: {message}")

    return hear


# ---- processes ----------------------------------------------------------------------------------


def carriers(marker: str) -> dict[int, str]:
    """Living processes that carry `marker` in their environment or command line: pid -> command."""
    found = {}
    needle = os.fsencode(marker)
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = Path(entry.path, "cmdline").read_bytes()
            environment = Path(entry.path, "environ").read_bytes()
            state = Path(entry.path, "stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:  # ended meanwhile, or another user's
            continue
        if state != b"Z" and (needle in environment or needle in command):
            found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return found


def settled(marker: str, seconds: float = SETTLE) -> dict[int, str]:
    """What still carries `marker` when nothing has changed it for so long; empty is good."""
    deadline = time.monotonic() + seconds
    while (living := carriers(marker)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return living


def end(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def stop_daemon(home: Path) -> None:
    """End the daemon of this home, by the id it wrote down, if it is that daemon."""
    try:
        pid = int((home / "daemon.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return
    if pid in carriers(str(home)):
        end(pid, signal.SIGTERM)


# ---- fixtures -----------------------------------------------------------------------------------


@pytest.fixture
def home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory for this test alone, short enough for Unix sockets, set as DROMON_HOME.

    Afterwards its daemon is stopped; a test that leaves any other process behind fails.
    """
    path = Path(tempfile.mkdtemp(prefix="dromon-", dir="/tmp"))
    monkeypatch.setenv("DROMON_HOME", str(path))
    failures = request.session.testsfailed
    yield path
    stop_daemon(path)
    survivors = settled(str(path))
    for pid in survivors:
        end(pid, signal.SIGKILL)
    if survivors:
        settled(str(path))
    shutil.rmtree(path, ignore_errors=True)
    if survivors and request.session.testsfailed == failures:
        listing = "\n".join(f"  {pid}: {command}" for pid, command in survivors.items())
        pytest.fail(f"processes of {path} outlived the test:\n{listing}")


@pytest.fixture
def dromon(home: Path) -> Run:
    """Runs the command line over `home`: dromon("ps", "-a").stdout. Never raises on an exit code.

    Keywords: `env` (added to the environment; None removes a name), and those of subprocess.run.
    """
    installed = Path(sys.executable).with_name("dromon")
    command = [installed] if installed.exists() else [sys.executable, "-m", "dromon.cli"]

    def run(
        *args: str | os.PathLike[str], env: dict[str, str | None] | None = None, **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        names: dict[str, str | None] = {**os.environ, "DROMON_HOME": str(home), **(env or {})}
        options = {"timeout": 60, "capture_output": True, "text": True, **options}
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            [*command, *args],
            env={k: v for k, v in names.items() if v is not None},
            check=False,
            **options,
        )

    return run


# ---- nothing is left out silently ---------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    counts: Counter[str] = Counter()
    config.stash[left_out] = counts
    # A test measures or starts programs as a user would: with bytecode kept.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        marks = [mark for mark in ELSEWHERE if item.get_closest_marker(mark)]
        item.config.stash[left_out].update(marks)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # a worker of xdist tells its controller
        counts: Counter[str] = session.config.stash[left_out]
        session.config.workeroutput["left_out"] = dict(counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    told = getattr(node, "workeroutput", {}).get("left_out", {})
    counts: Counter[str] = node.config.stash[left_out]
    counts |= Counter(told)  # every worker has collected the same


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    counts = config.stash[left_out]
    skipped = len(terminalreporter.stats.get("skipped", ()))
    terminalreporter.section("left out")
    for mark, target in ELSEWHERE.items():
        if counts[mark]:
            terminalreporter.line(f"{counts[mark]} marked {mark}: `make {target}` runs them")
    terminalreporter.line(f"{skipped} skipped" + (", see below for why" if skipped else ""))
