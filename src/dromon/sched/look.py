"""What was found for one waiting job, for those who ask why. A value."""

from dataclasses import dataclass, field

from dromon.sched.caps import Cap
from dromon.sched.job import Job


@dataclass(slots=True)
class Look:
    job: Job
    found: str  # "starts", "held", "blocked", "closed"
    cap: Cap | None = None
    planned: float | None = None
    ahead: list[Job] = field(default_factory=list)  # blocked ones before it
    victims: tuple[str, ...] = ()
