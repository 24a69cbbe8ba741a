"""The bench of the fault tests serves here too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
from bench import bench, nobody  # noqa: F401
