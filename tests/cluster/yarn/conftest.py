"""A bed for all tests of this directory: brought up once, taken down at the end."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))  # the test beds are no part of what is installed
sys.path.insert(0, str(Path(__file__).parent))  # jobs.py

import jobs  # noqa: E402
import queues  # noqa: E402
from testbeds.yarn import jars  # noqa: E402
from testbeds.yarn.bed import Bed  # noqa: E402
from testbeds.yarn.plan import Options  # noqa: E402

from dromon.engines.yarn.engine import YarnEngine  # noqa: E402


@pytest.fixture(scope="session")
def hadoop(lacking: Callable[[str], NoReturn]) -> None:
    """Java and the jars; without them a test is skipped, or fails where clusters are required."""
    try:
        jars.find_java()
        jars.fetch(Options().hadoop, print)
    except (jars.JavaMissing, jars.MavenMissing) as error:
        lacking(str(error))


def beds() -> Iterator[Callable[..., Bed]]:
    """Brings beds up, each with options of its own, and takes all of them down at the end."""
    made: list[Bed] = []

    def up(**options: Any) -> Bed:
        bed = Bed(tempfile.mkdtemp(prefix="dromon-yarn-", dir="/tmp"), tell=print)
        made.append(bed)
        bed.up(Options(**options))
        return bed

    yield up
    for bed in made:
        bed.down()
        shutil.rmtree(bed.dir)


@pytest.fixture(scope="session")
def lasting_bed(hadoop: None) -> Iterator[Callable[..., Bed]]:
    """Of those for several files; each costs some of a core as long as it is up."""
    yield from beds()


@pytest.fixture(scope="module")
def new_bed(hadoop: None) -> Iterator[Callable[..., Bed]]:
    """Of those for one file; down when it is through."""
    yield from beds()


@pytest.fixture(scope="session")
def bed(lasting_bed: Callable[..., Bed]) -> Bed:
    """The bed as `up` makes it. Whoever kills a daemon of it starts it again."""
    return lasting_bed()


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


@pytest.fixture(scope="module")
def place(new_bed: Callable[..., Bed]) -> Iterator[Bed]:
    """A bed with queues of every kind."""
    made = new_bed(settings=queues.SETTINGS)
    yield made
    made.down()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def engine(place: Bed, home: Path) -> Iterator[YarnEngine]:
    made = jobs.engine(place, home)
    yield made
    jobs.stop_all(made)
    made.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first."""
    first = ("contract", "test_frameworks", "test_scale", "test_scheduling", "test_faults")
    items.sort(key=lambda item: not {item.path.stem, item.path.parent.name} & {*first})


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where several work at once, each takes whole files, and the contract suite as one: their beds
    are the dear part."""
    from xdist.scheduler import LoadScopeScheduling

    class ByBed(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "contract" if "/contract/" in file else file

    return ByBed(config, log)
