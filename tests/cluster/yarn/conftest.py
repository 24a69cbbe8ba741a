"""A bed for all tests of this directory: brought up once, taken down at the end."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))  # the test beds are no part of what is installed
sys.path.insert(0, str(Path(__file__).parent))  # jobs.py

import queues  # noqa: E402
import yarnjobs as jobs  # noqa: E402
from testbeds.yarn import jars  # noqa: E402
from testbeds.yarn.bed import Bed  # noqa: E402
from testbeds.yarn.plan import Options  # noqa: E402
from yarnsaid import Said, said  # noqa: E402

from dromon.engines.yarn.engine import YarnEngine  # noqa: E402


@pytest.fixture(scope="session")
def hadoop(lacking: Callable[[str], NoReturn]) -> None:
    """Java and the jars; without them a test is skipped, or fails where clusters are required."""
    try:
        jars.find_java()
        jars.fetch(Options().hadoop, print)
    except (jars.JavaMissing, jars.MavenMissing) as error:
        lacking(str(error))


def options(settings: Mapping[str, str] | None = None, **more: Any) -> Options:
    """Nodes are heard twice as often as else: much of what tests wait for is the next beat."""
    beat = {"yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "250"}
    return Options(settings={**beat, **(settings or {})}, **more)


def up(wanted: Options) -> Bed:
    made = Bed(tempfile.mkdtemp(prefix="dromon-yarn-", dir="/tmp"), tell=print)
    made.up(wanted)
    return made


def down(made: Bed) -> None:
    made.down()
    shutil.rmtree(made.dir)


@pytest.fixture(scope="session")
def bed(hadoop: None) -> Iterator[Bed]:
    """The bed as `up` makes it. Whoever kills a daemon of it starts it again."""
    made = up(options())
    yield made
    down(made)


@pytest.fixture
def one_node(bed: Bed) -> Iterator[None]:
    """The other one is for those who ask for its label: what is large is unpacked only once."""
    bed.label("node2", "gpu")
    yield
    bed.label("node2", "")


class Guests:
    """Beds with options of their own, one at a time: the next one with the same options, in
    whichever file, is the same bed as long as nobody has asked for another. Each costs some of a
    core while it is up, and some of a minute to come up."""

    def __init__(self) -> None:
        self._bed: Bed | None = None

    def __call__(self, **asked: Any) -> Bed:
        found, wanted = self._bed, options(**asked)
        if found is None or not self._is_whole(found, wanted):
            self.leave()
            found = self._bed = up(wanted)
        return found

    def _is_whole(self, bed: Bed, wanted: Options) -> bool:
        plan = bed.plan
        return plan.options == wanted and all(bed.is_alive(daemon) for daemon in plan.daemons)

    def leave(self) -> None:
        if self._bed is not None:
            down(self._bed)
            self._bed = None


@pytest.fixture(scope="session")
def new_bed(hadoop: None) -> Iterator[Callable[..., Bed]]:
    guests = Guests()
    yield guests
    guests.leave()


@pytest.fixture(scope="module")
def frail(new_bed: Callable[..., Bed]) -> Bed:
    """A bed to take things away from. Masters run on node1, members with the label on the others;
    what is lost is noticed soon, and the ResourceManager remembers."""
    made = new_bed(
        nodes=3,
        expiry=12,
        recovery=True,
        settings={"yarn.resourcemanager.am.max-attempts": "10"},
    )
    for node in ("node2", "node3"):
        made.label(node, "gpu")
    return made


@pytest.fixture
def second(new_bed: Callable[..., Bed]) -> Bed:
    """One whose ResourceManager remembers, and places by constraints itself."""
    handler = "yarn.resourcemanager.placement-constraints.handler"
    # While it restarts, masters say nothing; beside other tests that takes its time.
    return new_bed(expiry=25, recovery=True, settings={handler: "scheduler"})


@pytest.fixture(scope="module")
def place(new_bed: Callable[..., Bed]) -> Bed:
    """A bed with queues of every kind."""
    return new_bed(settings=queues.SETTINGS)


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every program of this machine but Python."""
    made = tmp_path_factory.mktemp("tools")
    for folder in map(Path, os.environ["PATH"].split(":")):
        for program in folder.iterdir() if folder.is_dir() else ():
            if not program.name.startswith("py") and not (made / program.name).is_symlink():
                (made / program.name).symlink_to(program)
    return made


@pytest.fixture(scope="module")
def bare(new_bed: Callable[..., Bed], tools: Path) -> Bed:
    """A node whose PATH has no Python and whose logs are kept indexed and compressed, and a
    NameNode that issues tokens although security is off."""
    settings = {
        "yarn.nodemanager.admin-env": f"PATH={tools}",
        "yarn.log-aggregation.file-formats": "IFile",
        "yarn.log-aggregation.file-controller.IFile.class": "org.apache.hadoop.yarn."
        "logaggregation.filecontroller.ifile.LogAggregationIndexedFileController",
        "yarn.nodemanager.log-aggregation.compression-type": "gz",
        "dfs.namenode.delegation.token.always-use": "true",
    }
    return new_bed(nodes=1, settings=settings)


@pytest.fixture(scope="session")
def lasting_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For several files: what is packed for one of them is not packed again for another."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def engine(place: Bed, home: Path) -> Iterator[YarnEngine]:
    made = jobs.engine(place, home)
    yield made
    jobs.stop_all(made)
    made.close()


@pytest.fixture
def example(
    home: Path, dromon: Callable[..., Any], bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Said]:
    """Runs examples/NAME/job.yaml on the bed to its end."""
    monkeypatch.setenv("HADOOP_CONF_DIR", bed.plan.conf())

    def run(name: str, *overrides: str) -> Said:
        job = ROOT / "examples" / name / "job.yaml"
        ended = dromon("run", job, "--on", "yarn", *overrides, timeout=850)
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
        return said(ended.stdout)

    return run


@pytest.fixture
def program(home: Path, bed: Bed, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs a Python program on this machine that submits to the bed; what it printed."""
    monkeypatch.setenv("HADOOP_CONF_DIR", bed.plan.conf())
    monkeypatch.delenv("DROMON_ON", raising=False)

    def run(*words: object, python: str = sys.executable, **more: Any) -> str:
        environ = {**os.environ, "DROMON_HOME": str(home), **more.pop("env", {})}
        done = subprocess.run(
            [python, *map(str, words)], env=environ, capture_output=True, text=True, timeout=850,
            check=False, **more,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
