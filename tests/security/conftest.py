"""The bench of the fault tests serves here too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
sys.path.insert(0, str(Path(__file__).parent))
from bench import bench, nobody  # noqa: F401
from booted import booted  # noqa: F401
from people import accounts, machine  # noqa: F401
