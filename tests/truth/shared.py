"""Where public traces lie: beside the checkout, in `shared/traces`; without them, tests skip."""

import os
from pathlib import Path

import pytest

IS_DEEP = os.environ.get("DROMON_DEEP") == "1"
TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"


def trace_file(name: str) -> str:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"needs the public trace {name} in ../shared/traces")
    return str(path)


def long_run() -> None:
    """Leave it out where time is short."""
    if not IS_DEEP:
        pytest.skip("takes long; DROMON_DEEP=1 runs it")
