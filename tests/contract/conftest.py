"""The benches the contract suite runs on, one engine each, and what came of it."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # the test beds are no part of what is installed
sys.path.insert(0, str(Path(__file__).parent))

from benches import Bench, LocalBench, MemoryBench
from clusterbenches import KubernetesBench, YarnBench

BENCHES: dict[str, type[Bench]] = {"memory": MemoryBench, "local": LocalBench}
CLUSTERS: dict[str, type[Bench]] = {"yarn": YarnBench, "kubernetes": KubernetesBench}
# A cluster is tried on its own: DROMON_BENCH=yarn pytest tests/contract, or kubernetes
CHOSEN = os.environ.get("DROMON_BENCH", "")
if CHOSEN:
    BENCHES = {CHOSEN: CLUSTERS[CHOSEN]}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A cluster may take its time; what hangs is found all the same."""
    for item in items:
        if CHOSEN and item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(600))


# ---- what came of it, for docs/reference/engines.md -------------------------------------------

RESULTS = os.environ.get("DROMON_CONTRACT_RESULTS", "")  # a directory: written there by engine
outcomes: dict[str, dict[str, str]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path, _, name = report.nodeid.partition("::")
    test, _, engine = name.rstrip("]").partition("[")
    if Path(path).parent.name == "contract" and (report.when == "call" or not report.passed):
        engine = engine.partition("-")[0]
        outcomes.setdefault(engine, {})[f"{Path(path).stem}::{test}"] = report.outcome


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not RESULTS or hasattr(session.config, "workerinput"):
        return
    for engine, found in outcomes.items():
        file = Path(RESULTS, f"{engine}.json")
        before = json.loads(file.read_text()) if file.exists() else {}
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({**before, **found}, indent=1, sort_keys=True) + "\n")


closing: list[Callable[[], None]] = []  # benches that are open


@pytest.fixture(scope="session", params=BENCHES)
def engine_bench(
    request: pytest.FixtureRequest, lacking: Callable[[str], NoReturn]
) -> Iterator[Bench]:
    reason = BENCHES[request.param].lacks()
    if reason:
        lacking(reason)
    home = Path(tempfile.mkdtemp(prefix="dromon-", dir="/tmp"))
    bench = BENCHES[request.param](home)
    closing.append(lambda: close(bench, home))
    yield bench
    leave()


def leave() -> None:
    while closing:
        closing.pop()()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """A cluster takes some of a core while it is up, so it goes with the last test that is for it:
    here they follow each other, whoever else works beside."""
    yield
    if CHOSEN and nextitem is not None and nextitem.path.parent != Path(__file__).parent:
        leave()


def close(bench: Bench, home: Path) -> None:
    alone = bench.until(lambda: not bench.survivors(), timeout=10)
    left = bench.survivors()
    bench.close()
    shutil.rmtree(home, ignore_errors=True)
    assert alone, left  # every job had ended, so nothing of theirs may still run


@pytest.fixture
def bench(engine_bench: Bench) -> Iterator[Bench]:
    yield engine_bench
    engine_bench.clear()
