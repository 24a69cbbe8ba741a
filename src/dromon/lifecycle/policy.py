"""Which action answers which event, how long to wait before a retry, which roles end a job.

Functions of the plan alone. A role's own policies beat the job's, and within either of them
`exit_code:N` beats `member_failed`.
"""

from typing import FrozenSet, Iterator, Mapping, Optional, Sequence, Tuple

from dromon.lifecycle.plan import DEFAULT_POLICIES, FOLLOWS, REQUIRED, GangPlan
from dromon.lifecycle.verdict import EVICTED, LOST, PREEMPTED, Exit
from dromon.units import parse_duration

LONGEST_BACKOFF = 3600.0

# A placed member that has not come to the barrier after this many times `gang_wait` is lost.
ABSENT_WAITS = 10
SHORTEST_ABSENCE = 60.0  # `gang_wait: 0` must not mean that nobody can ever arrive

# A run shorter than this that ends by a loss makes the next start wait: losses never count
# against the retries, and without a pause a broken node would be tried thousands of times.
QUICK_LOSS = 60.0


def kind_of(exit: Exit) -> str:
    """The policy event of an exit that the gang did not ask for: "", member_failed, member_evicted
    or member_lost.

    A member that was told to stop all the same was told so from outside, with its place: however
    well it saved and left, it did not do its work.
    """
    if exit.cause == LOST:
        return "member_lost"
    if exit.stopped or exit.cause in (EVICTED, PREEMPTED):
        return "member_evicted"
    return "" if exit.ok else "member_failed"


def shell_code(exit: Exit) -> Optional[int]:
    """The exit code as a shell counts it, so that `exit_code:137` finds a SIGKILL."""
    if exit.code is None and exit.signal is not None:
        return 128 + exit.signal
    return exit.code


def keys_of(kind: str, exit: Optional[Exit] = None) -> Tuple[str, ...]:
    """The names a policy may have for it, the most particular first."""
    code = None if exit is None or kind != "member_failed" else shell_code(exit)
    return (kind,) if code is None else (f"exit_code:{code}", kind)


def action_for(plan: GangPlan, role: str, keys: Sequence[str]) -> str:
    """What to do when this happens to a member of `role`; "" when nobody said."""
    for policies in (plan.role(role).policies, plan.policies, DEFAULT_POLICIES):
        for key in keys:
            if key in policies:
                return policies[key]
    return ""


def pendings(plan: GangPlan) -> Tuple[Tuple[float, str, str], ...]:
    """(seconds in the queue, action, the policy's own words), soonest first."""
    found = (_pendings(p) for p in (plan.policies, *(r.policies for r in plan.roles)))
    return tuple(sorted(one for some in found for one in some))


def _pendings(policies: Mapping[str, str]) -> Iterator[Tuple[float, str, str]]:
    for key, action in policies.items():
        name, _, duration = key.partition(":")
        # A job that has not started cannot be restarted, so only ends are answers here.
        if name == "pending" and action in ("abort_job", "complete_job"):
            yield parse_duration(duration), action, key


def backoff(plan: GangPlan, retry: int) -> float:
    """Seconds before the `retry`-th retry, 1-based."""
    return min(plan.backoff * 2.0 ** min(retry - 1, 60), LONGEST_BACKOFF)


def absence(plan: GangPlan) -> float:
    return max(ABSENT_WAITS * plan.gang_wait, SHORTEST_ABSENCE)


def roles_that_end(plan: GangPlan) -> FrozenSet[str]:
    """Names of the roles whose success is the job's. A job of servers alone waits for all."""
    for ending in (REQUIRED, FOLLOWS):
        names = frozenset(r.name for r in plan.roles if r.ending == ending)
        if names:
            return names
    return frozenset(r.name for r in plan.roles)
