"""Who does what where several work at once: whole files each, since their beds are the dear part.

Its own scheduler, because xdist's groups have no effect on tests collected by import.
"""

from pathlib import Path
from typing import Any

import pytest

# Whole files go together, and these beyond them: they share a bed, or what is in its caches.
TOGETHER = {
    "yarn/test_frameworks": "frameworks",
    "yarn/test_compat": "frameworks",
    "yarn/test_faults": "faults",
    "yarn/test_takeover": "faults",
    "yarn/test_scheduling": "queues",
    "yarn/test_gangs": "queues",
    "yarn/test_master_protocol": "second",
    "yarn/test_orphans": "second",
    "yarn/test_aggregated": "bare",
    "yarn/test_environment": "bare",
    "yarn/test_tokens": "bare",
}
# They come first, the longest first.
LONG = ("contract", "faults", "yarn/test_tensorflow", "queues", "bare", "yarn/test_scale",
        "yarn/test_bed", "second", "frameworks", "kubernetes/test_faults", "kubernetes/test_bed",
        "kubernetes/test_frameworks")  # fmt: skip


def share(path: Path) -> str:
    name = f"{path.parent.name}/{path.stem}"
    return "contract" if path.parent.name == "contract" else TOGETHER.get(name, name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("dist", "no") != "loadscope":
        return

    def turn(item: pytest.Item) -> int:
        own = share(item.path)
        return LONG.index(own) if own in LONG else len(LONG)

    items.sort(key=turn)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where several work at once, what goes together is done by one of them."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Shares(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return share(Path(nodeid.partition("::")[0]))

    return Shares(config, log)
