"""Real users for the machine with a real GPU: those of the security tests."""

import sys
from pathlib import Path

for folder in ("faults", "security"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
from people import accounts, machine  # noqa: E402, F401
