"""What the members of an example said."""

import json
import re
from dataclasses import dataclass

RANKS = r"rank \d+ of \d+(?:, local \d+ of \d+|, \d+ devices in all)?"


@dataclass(frozen=True)
class Said:
    """The output of a job, as it came, without the members' names."""

    lines: list[str]

    def matching(self, pattern: str) -> list[str]:
        """What has this shape, sorted: members speak in any order."""
        return sorted(m[0] for line in self.lines for m in re.finditer(pattern, line))

    def has_learnt(self) -> bool:
        texts = [text for line in self.lines for text in re.findall(r"\{.*?\}", line)]
        losses = [float(json.loads(text)["loss"]) for text in texts]
        return len(losses) >= 3 and losses[-1] < 0.8 * losses[0]


def said(output: str) -> Said:
    return Said([re.sub(r"^[a-z]+-\d+ *\| ", "", line) for line in output.splitlines()])
