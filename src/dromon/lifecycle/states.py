"""The states of a job and of a member, and which may follow which, as literal tables.

Rules of this file: (1) nothing but tables and predicates over them; (2) a state is a plain
string, because it is stored, sent and shown.
"""

from typing import Dict, FrozenSet

PREPARING = "preparing"  # accepted; its environment is being resolved and built
QUEUED = "queued"  # waits for a placement
STARTING = "starting"  # placed; members gather at the barrier
RUNNING = "running"  # the barrier has opened
RESTARTING = "restarting"  # members are being stopped, or back-off runs, before the next attempt
STOPPING = "stopping"  # asked to end; members have their grace
SUCCEEDED = "succeeded"
FAILED = "failed"
STOPPED = "stopped"

JOB: Dict[str, FrozenSet[str]] = {
    PREPARING: frozenset({QUEUED, FAILED, STOPPED}),
    QUEUED: frozenset({STARTING, SUCCEEDED, FAILED, STOPPED}),  # succeeded: pending: complete_job
    STARTING: frozenset({RUNNING, RESTARTING, STOPPING, FAILED, STOPPED, QUEUED}),
    RUNNING: frozenset({RESTARTING, STOPPING, SUCCEEDED, FAILED}),
    RESTARTING: frozenset({STARTING, QUEUED, STOPPING, FAILED, STOPPED}),
    STOPPING: frozenset({SUCCEEDED, FAILED, STOPPED}),
    SUCCEEDED: frozenset(),
    FAILED: frozenset(),
    STOPPED: frozenset(),
}
TERMINAL: FrozenSet[str] = frozenset(s for s, after in JOB.items() if not after)

# Of one member's run.
LAUNCHED = "launched"  # an agent was asked for
READY = "ready"  # at the barrier
UP = "up"  # the member's process runs
ENDING = "ending"  # was told to stop
DONE = "done"  # exited with 0, or ended as it was meant to
BROKEN = "broken"  # exited otherwise, or could not start
GONE = "gone"  # lost or evicted: no exit of its own

MEMBER: Dict[str, FrozenSet[str]] = {
    LAUNCHED: frozenset({READY, ENDING, BROKEN, GONE}),
    READY: frozenset({UP, ENDING, DONE, BROKEN, GONE}),
    UP: frozenset({ENDING, DONE, BROKEN, GONE}),
    ENDING: frozenset({DONE, BROKEN, GONE}),
    DONE: frozenset(),
    BROKEN: frozenset(),
    GONE: frozenset(),
}
MEMBER_ENDED: FrozenSet[str] = frozenset(s for s, after in MEMBER.items() if not after)


def is_terminal(state: str) -> bool:
    return state in TERMINAL
