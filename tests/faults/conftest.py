"""One bench for each test of faults; see `bench`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from bench import bench, nobody  # noqa: F401
