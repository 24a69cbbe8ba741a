"""Sums over an outcome: completion times, waiting, use, fairness. Values only come out.

JCT is the time from a job's submit to its end, queueing the part of it in which it did not run.
Fairness is Jain's index over users (or queues) of how fast their jobs went, work over JCT: 1 when
all were served alike, 1/n when one had everything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isnan

from dromon.sim.outcome import DONE, DROPPED, OPEN, REFUSED, Outcome

POINTS = 240  # of a curve
GROUPS = 1000  # users or queues listed at most, those with the most GPU-hours first


@dataclass(frozen=True, slots=True)
class Spread:
    mean: float = 0.0
    median: float = 0.0
    p99: float = 0.0

    @staticmethod
    def of(values: Sequence[float]) -> "Spread":
        """`values` in ascending order."""
        count = len(values)
        if not count:
            return Spread()
        middle = (values[(count - 1) // 2] + values[count // 2]) / 2
        return Spread(sum(values) / count, middle, values[int(0.99 * count)])


@dataclass(frozen=True, slots=True)
class Group:
    """A user's or a queue's part of it."""

    name: str
    jobs: int
    gpu_hours: float
    jct: float
    queueing: float
    speed: float  # work over JCT, the mean of its jobs


@dataclass(frozen=True, slots=True)
class Summary:
    """One run. Seconds, and parts between 0 and 1."""

    policy: str
    placement: str
    seed: int
    gpus: int
    jobs: int
    done: int
    dropped: int
    refused: int
    unfinished: int
    jct: Spread
    queueing: Spread
    makespan: float
    utilisation: float
    allocated: float  # at the last event
    fragmentation: float  # free, but of no use to the jobs that usually come; of all GPUs
    preemptions: int
    preempted_jobs: int
    user_fairness: float
    queue_fairness: float
    users: tuple[Group, ...] = ()
    queues: tuple[Group, ...] = ()
    use: tuple[tuple[float, float], ...] = ()  # (part of the makespan, part of the GPUs)
    waits: tuple[tuple[float, float], ...] = ()  # (seconds, part of the jobs that waited less)
    reasons: tuple[str, ...] = field(default=())  # of refusals, the first of each kind


def summarise(outcome: Outcome, policy: str, placement: str, seed: int) -> Summary:
    done = [place for place, state in enumerate(outcome.state) if state == DONE]
    jobs, end = outcome.jobs, outcome.finished
    jcts = sorted(end[place] - jobs[place].submit for place in done)
    waits = sorted(_wait(outcome, place) for place in done)
    makespan = max((end[place] for place in done), default=0.0) or last_time(outcome)
    users = groups(outcome, done, [jobs[place].user for place in done])
    queues = groups(outcome, done, [jobs[place].queue for place in done])
    states = [outcome.state.count(state) for state in (OPEN, DROPPED, REFUSED)]
    return Summary(
        policy=policy,
        placement=placement,
        seed=seed,
        gpus=outcome.gpus,
        jobs=len(jobs),
        done=len(done),
        unfinished=states[0],
        dropped=states[1],
        refused=states[2],
        jct=Spread.of(jcts),
        queueing=Spread.of(waits),
        makespan=makespan,
        utilisation=utilisation(outcome, makespan),
        allocated=outcome.used[-1] / outcome.gpus if outcome.used and outcome.gpus else 0.0,
        fragmentation=mean_over_time(outcome.fragments, makespan),
        preemptions=sum(outcome.interruptions.values()),
        preempted_jobs=len(outcome.interruptions),
        user_fairness=jain(group.speed for group in users),
        queue_fairness=jain(group.speed for group in queues),
        users=users[:GROUPS],
        queues=queues[:GROUPS],
        use=use_curve(outcome, makespan),
        waits=wait_curve(waits),
        reasons=tuple(dict.fromkeys(outcome.reasons.values()))[:3],
    )


def _wait(outcome: Outcome, place: int) -> float:
    """Never negative: sums of spans may miss the whole by a rounding."""
    jct = outcome.finished[place] - outcome.jobs[place].submit
    return max(0.0, jct - outcome.ran[place])


def last_time(outcome: Outcome) -> float:
    return outcome.times[-1] if outcome.times else 0.0


def groups(outcome: Outcome, done: Sequence[int], names: Sequence[str]) -> tuple[Group, ...]:
    """By name; those with the most GPU-hours first."""
    sums: dict[str, list[float]] = {}
    for place, name in zip(done, names, strict=True):
        job = outcome.jobs[place]
        jct = outcome.finished[place] - job.submit
        row = sums.setdefault(name, [0, 0.0, 0.0, 0.0, 0.0])
        row[0] += 1
        row[1] += outcome.ran[place] * outcome.gpus_of(place) / 3600
        row[2] += jct
        row[3] += _wait(outcome, place)
        row[4] += min(1.0, job.duration / jct) if jct > 0 else 1.0
    found = [
        Group(name, int(n), hours, jct / n, wait / n, speed / n)
        for name, (n, hours, jct, wait, speed) in sums.items()
    ]
    return tuple(sorted(found, key=lambda group: (-group.gpu_hours, group.name)))


def jain(values: Iterable[float]) -> float:
    """Jain's index of fairness."""
    known = list(values)
    squares = sum(value * value for value in known)
    return sum(known) ** 2 / (len(known) * squares) if squares else 1.0


def utilisation(outcome: Outcome, until: float) -> float:
    if not outcome.gpus or until <= 0:
        return 0.0
    return sum(spans(outcome, 0.0, until)) / (outcome.gpus * until)


def spans(outcome: Outcome, start: float, end: float) -> Iterable[float]:
    """GPU-seconds in use, piece by piece, between two times."""
    times, used = outcome.times, outcome.used
    for number, begin in enumerate(times):
        until = times[number + 1] if number + 1 < len(times) else end
        if until > start and begin < end:
            yield used[number] * (min(until, end) - max(begin, start))


def use_curve(outcome: Outcome, makespan: float) -> tuple[tuple[float, float], ...]:
    """How much was in use, as means of equal stretches of time."""
    if not outcome.times or makespan <= 0 or not outcome.gpus:
        return ()
    sums, wide = [0.0] * POINTS, makespan / POINTS
    times, used = outcome.times, outcome.used
    for number, begin in enumerate(times):
        until = min(times[number + 1] if number + 1 < len(times) else makespan, makespan)
        first, last = int(begin / wide), min(int(until / wide), POINTS - 1)
        for step in range(first, last + 1):
            low, high = max(begin, step * wide), min(until, (step + 1) * wide)
            if high > low:
                sums[step] += used[number] * (high - low)
    whole = outcome.gpus * wide
    return tuple((round((i + 0.5) / POINTS, 6), round(s / whole, 6)) for i, s in enumerate(sums))


def wait_curve(waits: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """The distribution of waiting: at which seconds which part had waited no longer."""
    count = len(waits)
    if not count:
        return ()
    steps = sorted({min(count - 1, count * i // POINTS) for i in range(POINTS)} | {count - 1})
    return tuple((round(waits[at], 6), round((at + 1) / count, 6)) for at in steps)


def mean_over_time(samples: Sequence[tuple[float, float]], until: float) -> float:
    total = 0.0
    for number, (begin, value) in enumerate(samples):
        end = samples[number + 1][0] if number + 1 < len(samples) else until
        if not isnan(value) and min(end, until) > begin:
            total += value * (min(end, until) - begin)
    return total / until if until > 0 else 0.0
