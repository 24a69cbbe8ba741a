"""What is wrong with a cluster's configuration: the place, what happens, why, and the remedy."""

from dataclasses import asdict, dataclass
from typing import Any

ERROR, WARNING = "error", "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    file: str
    line: int
    column: int
    severity: str
    rule: str  # a name that stays, for scripts and for searching
    what: str  # what happens on the cluster
    why: str
    remedy: str

    @property
    def order(self) -> tuple[Any, ...]:
        return (self.file, self.line, self.column, self.severity, self.rule, self.what)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return (
            f"{place}: {self.severity}: {self.what} [{self.rule}]\n"
            f"    why: {self.why}\n"
            f"    do:  {self.remedy}"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
