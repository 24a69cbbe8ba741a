"""Members at the barrier whose agents are still to come.

Where nothing has to be reserved for a member, all there is to know about its place is known at its
launch. So no agent is sent for before there is something to tell it, mostly the world: a large
gang is started at the pace of the machine (`starts`), and an agent whose member has ended takes the
next one.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from dromon.agent.frames import Message
from dromon.agent.plan import HERE
from dromon.coordinator.door import Admitted
from dromon.engines.local.jobs import Job
from dromon.engines.local.server import Peer, numbers
from dromon.lifecycle import events as ev

if TYPE_CHECKING:
    from dromon.engines.local.lines import Line

Come = Callable[[ev.Launch, Peer, Message], "Line | None"]


class Awaited:
    """Stands for the agent until `come` has sent for one, with the first word that it is told."""

    def __init__(self, job: str, launch: ev.Launch, come: Come) -> None:
        self.number = next(numbers)
        self.admitted: Admitted | None = Admitted(job, launch.member, launch.run, {})
        self.dismissed = False
        self._launch = launch
        self._come = come
        self._line: Line | None = None

    def send(self, message: Message) -> None:
        if self._line is None:
            self._line = self._come(self._launch, self, message)
        elif self._line.number == self.number:
            self._line.send(message)


def is_wanted(job: Job, launch: ev.Launch) -> bool:
    """Whether this very run is still to happen, or to be told that it will not."""
    member = job.gang.members.get(launch.member)
    return (
        job.placement is not None
        and member is not None
        and member.is_live
        and member.run == launch.run
    )


def gather(
    job: Job, launches: list[ev.Launch], come: Come, agents: dict[int, Peer]
) -> ev.MembersReady | None:
    """Have these stand at the barrier, those of them who are still wanted."""
    there: list[ev.Launch] = []
    for launch in launches:
        if is_wanted(job, launch):
            awaited = Awaited(job.id, launch, come)
            agents[awaited.number] = awaited
            job.coordinator.peers[launch.member] = awaited.number
            there.append(launch)
    if not there:
        return None
    return ev.MembersReady(
        tuple(each.member for each in there), tuple(each.run for each in there), HERE
    )
