"""Verdicts in words. Everything a user reads about a job's end is written here."""

import signal
from dataclasses import dataclass, replace
from typing import Optional

from dromon.lifecycle import verdict as causes
from dromon.lifecycle.verdict import Exit, Verdict
from dromon.units import format_duration

_HINTS = {
    causes.OUT_OF_MEMORY: "Raise `resources.memory` of the role, or lower what it holds in memory.",
    causes.TIMEOUT: "Raise `max_duration`; a rerun goes on from $DROMON_CHECKPOINT_DIR.",
    causes.ENVIRONMENT: "Check `environment` in the job file.",
}
_CAUSE_WORDS = {causes.OUT_OF_MEMORY: "out of memory", causes.TIMEOUT: "out of time"}
_TAKEN_WORDS = {causes.LOST: "lost", causes.PREEMPTED: "preempted"}


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class Who:
    """The member a verdict is about. `alone`: its rank would tell nobody anything."""

    member: str
    rank: Optional[int]
    attempt: int
    alone: bool = False

    def __str__(self) -> str:
        if self.rank is None or self.alone:
            return self.member
        return f"{self.member} (rank {self.rank})"

    def verdict(self, cause: str, message: str) -> Verdict:
        return Verdict(
            cause, message, member=self.member, rank=self.rank, attempt=self.attempt,
            hint=_HINTS.get(cause, ""),
        )  # fmt: skip


def _how(exit: Exit) -> str:
    if exit.signal is not None:
        return f"was killed by {signal_name(exit.signal)}"
    if exit.code is not None:
        return f"failed with exit code {exit.code}"
    return "could not start"


def bare(code: Optional[int], number: Optional[int]) -> str:
    """What an agent says of an end it knows nothing more of."""
    return f"killed by {signal_name(number)}" if number is not None else f"exited with code {code}"


def failed(who: Who, exit: Exit) -> Verdict:
    """Of a member that ended otherwise than it should: with 0 only if it was told to stop."""
    cause = exit.cause
    if cause == causes.SUCCESS:
        cause = causes.EVICTED if exit.stopped else causes.USER_ERROR
    how = f"was {_TAKEN_WORDS.get(cause, 'evicted')}" if exit.ok else _how(exit)
    why = (
        ""
        if exit.message == bare(exit.code, exit.signal)
        else exit.message or _CAUSE_WORDS.get(cause, "")
    )
    if exit.ok and not why:
        why = "it was told to stop from outside"
    message = f"{who} {how}" + (f": {why}" if why else "")
    return replace(
        who.verdict(cause, message),
        code=exit.code, signal=exit.signal, last_lines=exit.last_lines,
    )  # fmt: skip


def too_early(who: Who) -> Verdict:
    """Of a member whose agent ended, with 0 at that, while the others were still awaited."""
    return who.verdict(causes.INTERNAL, f"{who} ended before the gang was complete")


def taken(who: Who, kind: str, why: str) -> Verdict:
    """Of a member that is gone without an exit of its own."""
    cause, how = (causes.LOST, "lost") if kind == "member_lost" else (causes.EVICTED, "evicted")
    return who.verdict(cause, f"{who} was {how}" + (f": {why}" if why else ""))


def absent(who: Who, waited: float) -> Verdict:
    why = f"not ready {format_duration(waited)} after its start"
    return who.verdict(causes.LOST, f"{who} was lost: {why}")


def by_policy(who: Who, what: str, policy: str) -> Verdict:
    """Of a success that the user calls a failure."""
    return who.verdict(causes.USER_ERROR, f"{what}, which {policy} answers with abort_job")


def after_retries(verdict: Verdict, retries: int) -> Verdict:
    if not retries:
        return verdict
    word = "retry" if retries == 1 else "retries"
    return replace(verdict, message=f"{verdict.message}, after {retries} {word}")


def succeeded(attempt: int, members: int, needed: int, ignored: int) -> Verdict:
    """Of `members` in all, `needed` decide, and the failure of `ignored` of these was let be."""
    which = "required members" if needed < members else "members"
    if ignored:
        message = f"{needed - ignored} of {needed} {which} succeeded, the policy ignores the others"
    elif needed == 1:
        message = "succeeded" if members == 1 else "the required member succeeded"
    else:
        message = f"all {needed} {which} succeeded"
    return Verdict(causes.SUCCESS, message, attempt=attempt)


def completed(attempt: int, what: str) -> Verdict:
    """`what` happened, and a policy says that this completes the job."""
    return Verdict(causes.SUCCESS, f"complete by policy: {what}", attempt=attempt)


def stopped(attempt: int, by: str, started: bool) -> Verdict:
    message = (f"stopped by {by}" if by else "stopped") + ("" if started else " before it started")
    return Verdict(causes.STOPPED, message, attempt=attempt)


def over_time(attempt: int, max_duration: Optional[float]) -> Verdict:
    message = f"over its max_duration of {format_duration(max_duration or 0.0)}"
    return Verdict(causes.TIMEOUT, message, attempt=attempt, hint=_HINTS[causes.TIMEOUT])


def waited_too_long(attempt: int, policy: str, action: str = "abort_job") -> Verdict:
    """Of a job that a `pending:DURATION` policy takes from the queue, and may call complete."""
    message = f"still queued after {policy.partition(':')[2]}"
    if action == "complete_job":
        return completed(attempt, message)
    hint = "`dromon why` says what a queued job waits for."
    return Verdict(causes.TIMEOUT, message, attempt=attempt, hint=hint)


def unprepared(cause: str, message: str) -> Verdict:
    return Verdict(cause, message, hint=_HINTS.get(cause, ""))
