"""What `gang` is told once, before anything happens. Values only."""

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple

# How a role takes part in the job's end.
REQUIRED = "required"  # the job succeeds when all of these have
FOLLOWS = "follows"  # gets `linger` seconds to end by itself after the required, then is stopped
SERVES = "serves"  # never ends by itself: stopped as soon as nobody needs it

EVENTS = (  # and exit_code:N, pending:DURATION
    "member_failed", "member_evicted", "member_lost", "role_completed",
)  # fmt: skip
ACTIONS = (
    "restart_job", "restart_role", "restart_member", "abort_job", "complete_job", "ignore",
)  # fmt: skip
DEFAULT_POLICIES = {
    "member_failed": "restart_job",  # while retries last; retries.max is 0 by default
    "member_evicted": "restart_job",
    "member_lost": "restart_job",
}


@dataclass(frozen=True)
class RolePlan:
    name: str
    replicas: int
    min: int
    ending: str = REQUIRED
    policies: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GangPlan:
    job: str
    framework: str
    roles: Tuple[RolePlan, ...]
    policies: Mapping[str, str] = field(default_factory=dict)
    max_retries: int = 0
    backoff: float = 10.0  # seconds before the first retry, doubled for each further one
    max_duration: Optional[float] = None  # running time of all attempts together
    stop_grace: float = 30.0
    gang_wait: float = 60.0
    linger: float = 10.0

    def role(self, name: str) -> RolePlan:
        return next(r for r in self.roles if r.name == name)

    def to_json(self) -> Dict[str, Any]:
        data = dict(self.__dict__)
        data["roles"] = [dict(r.__dict__, policies=dict(r.policies)) for r in self.roles]
        data["policies"] = dict(self.policies)
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "GangPlan":
        return GangPlan(**{**data, "roles": tuple(RolePlan(**r) for r in data["roles"])})
