"""Who gives way to a blocked job of higher priority. Nobody is sent away in vain."""

from bisect import bisect_left

from dromon.sched.cluster import Cluster, Job
from dromon.sched.placement import Trial, place


def make_room(cluster: Cluster, trial: Trial, job: Job) -> list[Job]:
    """The fewest running, preemptible jobs of lower priority whose end lets `job` fit: lowest
    priority first, youngest first. Empty when none would help, or when those that are stopping
    already make the room. `trial` stays as it is."""
    end = bisect_left(cluster.victims, (job.priority,))
    if not end:
        return []
    room = trial.copy()
    for id in cluster.stopping:
        room.give_back(cluster.jobs[id])
    if _fits(room, job):
        return []
    victims: list[Job] = []
    for *_, id in cluster.victims[:end]:
        victims.append(cluster.jobs[id])
        room.give_back(victims[-1])
        if _fits(room, job):
            return _least(room, job, victims)
    return []


def _least(room: Trial, job: Job, victims: list[Job]) -> list[Job]:
    """Spare whoever is not needed, beginning with those that least deserve to go. The one that
    made it fit is needed."""
    needed = victims[-1:]
    for victim in reversed(victims[:-1]):
        without = room.copy()
        for share in victim.placement.values():
            if share.node in without.nodes:
                without.take(share)
        if _fits(without, job):
            room = without
        else:
            needed.append(victim)
    return needed[::-1]


def _fits(room: Trial, job: Job) -> bool:
    return place(room.copy(), job.ask, only_min=True) is not None
