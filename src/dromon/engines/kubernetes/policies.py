"""What Volcano does by itself when a pod ends or does not start. Pure.

The first entry that fits wins, so our own exit codes stand first. Everything else is decided in the
pods (`lifecycle`): Volcano only gives a gang new pods when it has lost one.
"""

import math
from typing import Any

from dromon.engines.kubernetes import volcano
from dromon.errors import Refused
from dromon.lifecycle import policy
from dromon.lifecycle.plan import GangPlan

MAX_RETRY = 1_000_000  # what may be retried how often is not for the controller to say
# Volcano that is to end a job while it is still making its pods makes them anew, again and again:
# seen with 300 ms, not with 2 s.
SOONEST = 2.0
ACTIONS = {"abort_job": "TerminateJob", "complete_job": "CompleteJob"}


def policies(plan: GangPlan) -> list[dict[str, Any]]:
    return [
        *({"action": "TerminateJob", "exitCode": code} for code in volcano.RESERVED),
        {"action": "TerminateJob", "exitCode": volcano.UNSTARTED},
        *_pending(plan),
        {"action": "RestartJob", "event": "PodEvicted"},
        {"action": "RestartJob", "event": "PodFailed"},
    ]


def _pending(plan: GangPlan) -> list[dict[str, Any]]:
    """The soonest of them: Volcano takes an event once, and acts for the whole job anyway."""
    found = policy.pendings(plan)
    if not found:
        return []
    seconds, action, words = found[0]
    if any(role.min < role.replicas for role in plan.roles):
        raise Refused(
            f"policies: {words}: Volcano would end the job for a pod it can do without",
            hint="Leave `min:` out, or the policy.",
        )
    seconds = max(seconds, SOONEST)
    timeout = f"{math.ceil(seconds * 1000)}ms" if seconds % 1 else f"{int(seconds)}s"
    return [{"action": ACTIONS[action], "event": "PodPending", "timeout": timeout}]
