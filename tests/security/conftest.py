"""The bench of the fault tests serves here too."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
from bench import Bench, as_nobody


@pytest.fixture
def bench(
    home: Path, dromon: Callable[..., "subprocess.CompletedProcess[str]"], tmp_path: Path
) -> Bench:
    folder = tmp_path / "work"
    folder.mkdir()
    return Bench(dromon, home, folder)


@pytest.fixture
def nobody() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    return as_nobody()
