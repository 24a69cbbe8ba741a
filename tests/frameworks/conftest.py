"""An example, run as a user would, and what it said."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Said:
    """The output of a job that succeeded, as it came, without the members' names."""

    lines: list[str]

    def matching(self, pattern: str) -> list[str]:
        """What has this shape, sorted: members speak in any order, and processes that a launcher
        of their own gave one pipe may share a line (Python writes a line's end by itself)."""
        return sorted(m[0] for line in self.lines for m in re.finditer(pattern, line))

    @property
    def losses(self) -> list[float]:
        """Reported as JSON lines, by whichever member reports."""
        texts = [text for line in self.lines for text in re.findall(r"\{.*?\}", line)]
        return [float(json.loads(text)["loss"]) for text in texts]


@pytest.fixture
def example(dromon) -> Callable[..., Said]:
    """Runs examples/NAME/job.yaml to its end: example("hello", "replicas=3")."""

    def run(name: str, *overrides: str) -> Said:
        ended = dromon("run", EXAMPLES / name / "job.yaml", *overrides, timeout=900)
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
        return Said([re.sub(r"^[a-z]+-\d+ *\| ", "", line) for line in ended.stdout.splitlines()])

    return run
