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
sys.path.insert(0, str(Path(__file__).parent))  # what several files of tests share

import jobs  # noqa: E402
from testbeds.kubernetes import images, programs  # noqa: E402
from testbeds.kubernetes.bed import Bed, RootNeeded, need_root  # noqa: E402
from testbeds.kubernetes.plan import Options  # noqa: E402

from dromon.engines.base import token  # noqa: E402
from dromon.engines.home import Home  # noqa: E402
from dromon.engines.kubernetes import volcano  # noqa: E402
from dromon.engines.kubernetes.http import Api  # noqa: E402
from dromon.engines.kubernetes.kubeconfig import find  # noqa: E402
from dromon.errors import DromonError  # noqa: E402
from dromon.packaging import environment  # noqa: E402


@pytest.fixture(scope="session")
def built(lacking: Callable[[str], NoReturn]) -> None:
    """The programs and images; without what makes them a test is skipped, or fails where clusters
    are required."""
    try:
        need_root()
        images.archives(print)
    except (RootNeeded, programs.GoMissing, programs.PackagesUnavailable) as error:
        lacking(str(error))


@pytest.fixture(scope="session")
def python_with(registry: Callable[[str], None]) -> Callable[..., str]:
    """An interpreter with these packages, made once and kept outside the checkout."""

    def make(*names: str) -> str:
        cache = Home(tempfile.gettempdir()).cache
        try:
            lock = environment.resolve({"packages": list(names)}, "/tmp", cache, sys.executable)
            return str(environment.build(lock, cache))
        except DromonError as error:
            registry(error.message)
            raise

    return make


@pytest.fixture(scope="session")
def packages(python_with: Callable[..., str]) -> Callable[..., str]:
    """The directory of its packages."""

    def make(*names: str) -> str:
        found = Path(python_with(*names)).parents[1].glob("lib/python3.*/site-packages")
        return str(next(found))

    return make


def beds() -> Iterator[Callable[..., Bed]]:
    """Brings beds up, each with options of its own, and takes all of them down at the end."""
    made: list[Bed] = []

    def up(**options: Any) -> Bed:
        bed = Bed(tempfile.mkdtemp(prefix="dromon-kubernetes-", dir="/tmp"), tell=print)
        made.append(bed)
        bed.up(Options(**options))
        return bed

    yield up
    for bed in made:
        bed.down()
        shutil.rmtree(bed.dir)


@pytest.fixture(scope="session")
def lasting_bed(built: None) -> Iterator[Callable[..., Bed]]:
    """Of those for several files; each costs some of a core as long as it is up."""
    yield from beds()


@pytest.fixture(scope="module")
def new_bed(built: None) -> Iterator[Callable[..., Bed]]:
    """Of those for one file; down when it is through."""
    yield from beds()


@pytest.fixture(scope="session")
def bed(lasting_bed: Callable[..., Bed]) -> Bed:
    """The bed as `up` makes it. Whoever kills a component of it starts it again."""
    return lasting_bed()


@pytest.fixture
def api(bed: Bed) -> Iterator[Api]:
    """As its administrator."""
    with Api(find(bed.kubeconfig), patience=jobs.PATIENCE) as api:
        yield api


@pytest.fixture
def space(api: Api) -> Iterator[str]:
    """A namespace of its own."""
    name = f"api-{token()}"
    api.create(volcano.NAMESPACE, "", {"metadata": {"name": name}})
    jobs.is_settled(api, name)
    yield name
    api.delete_all(volcano.POD, name, "!kept", grace=0)
    api.delete(volcano.NAMESPACE, "", name)
