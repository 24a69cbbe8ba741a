"""The scheduler of a daemon on a shared machine: the arbiter decides, over a socket.

Events go out as they happen, decisions come in when they are made. While the arbiter is away
nothing new starts and all that runs goes on; when it is back it is told what there is.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dromon import __version__
from dromon.agent.frames import Message
from dromon.engines.local.shared import entries, wire
from dromon.engines.local.shared.door import Door
from dromon.engines.local.shared.entries import QUEUED, RUNNING, STOPPING
from dromon.engines.local.shared.link import Link, question
from dromon.engines.local.shared.people import person
from dromon.engines.local.shared.place import ArbiterAway, Place
from dromon.engines.local.shared.rulebook import SharedRulebook
from dromon.errors import DromonError
from dromon.sched import events
from dromon.sched.asks import Placement, Waiting
from dromon.sched.decisions import Decision, Grow, Preempt, Refuse, Shrink, Start

log = logging.getLogger("dromon.shared")
RETRY = 1.0  # seconds between two looks whether the arbiter is back


@dataclass(slots=True)
class Known:
    """A job of this daemon's, as it was last told."""

    job: events.JobSubmitted
    state: str = QUEUED
    placement: Placement = field(default_factory=dict)


class SharedScheduler:
    """`acls` gives what a job's file says of others; `due` wakes the daemon when something was
    decided; `stop` is called when somebody who may has a job stopped; `book` is told the rules;
    others read at the `door`."""

    def __init__(
        self,
        at: Place,
        home: str,
        gpus: Sequence[str],
        loop: asyncio.AbstractEventLoop,
        acls: Callable[[str], Mapping[str, Any]],
        due: Callable[[], None],
        stop: Callable[[str, str, float | None], None],
        book: SharedRulebook,
        door: Door,
    ) -> None:
        self.at = at
        self._book = book
        self._door = door
        self.away = "it was not asked yet"  # why it does not answer; empty: it does
        self.about: Message = {}
        self._home = home
        self._gpus = list(gpus)
        self._loop = loop
        self._acls = acls
        self._due = due
        self._stop = stop
        self._jobs: dict[str, Known] = {}
        self._decisions: deque[Decision] = deque()
        self._started = ""  # the job whose start is being carried out
        self._link: Link | None = None

    # ---- the line -------------------------------------------------------------------------------

    def connect(self) -> None:
        """Tell the arbiter who we are and what there is; again later when it is away."""
        try:
            link = self._link = Link(self.at, self._heard)
            who = {"version": __version__, "home": self._home, "door": self._door.path}
            self.about = link.ask("hello", gpus=self._gpus, **who)
            self._book.take(self.about.pop("rules"))
            for id in self._jobs:
                self._tell(id)
            link.send({"op": "told"})
            self._loop.add_reader(link.fileno(), self._readable)
            self.away = ""
            log.info("the arbiter of %s decides", self.about["user"])
            self._deliver()
        except DromonError as error:
            self._lost(error)
        except (KeyError, TypeError, ValueError) as error:
            self._lost(ArbiterAway(f"it speaks nonsense: {error!r}"))

    def _lost(self, error: DromonError) -> None:
        if self.away != error.message:
            log.warning("without the arbiter: %s", error.message)
        self.away = error.message
        self._decisions.clear()  # it has forgotten them, or will be told that we have
        self._hang_up()
        self._loop.call_later(RETRY, self.connect)

    def open(self) -> None:
        try:
            self._door.open()
        except OSError as error:  # nobody reads then; all else works
            log.warning("no door for other users: %s", error)
        self.connect()

    def close(self) -> None:
        self._door.close()
        self._hang_up()

    def _hang_up(self) -> None:
        if self._link is not None:
            self._loop.remove_reader(self._link.fileno())
            self._link.close()
            self._link = None

    def _readable(self) -> None:
        self._hear(lambda link: link.readable())

    def _deliver(self) -> None:
        """What was said while something was asked."""
        self._loop.call_soon(self._hear, lambda link: link.deliver())

    def _hear(self, take: Callable[[Link], None]) -> None:
        if self._link is None:
            return
        try:
            take(self._link)
        except ArbiterAway as error:
            self._lost(error)
        except (KeyError, TypeError, ValueError) as error:
            self._lost(ArbiterAway(f"it speaks nonsense: {error!r}"))

    def _say(self, message: Message) -> None:
        if self._link is None or self.away:
            return  # it is told everything when it is back
        try:
            self._link.send(message)
        except ArbiterAway as error:
            self._lost(error)

    def _tell(self, id: str) -> None:
        known = self._jobs[id]
        message = {"op": "job", "job": wire.plain(known.job), "acls": dict(self._acls(id))}
        if known.state != QUEUED:
            message |= {"state": known.state, "placement": wire.plain(known.placement)}
        assert self._link is not None
        self._link.send(message)

    def _heard(self, message: Message) -> None:
        """An order. Of jobs that are not what they were, nothing is done: it will hear why."""
        op, id = message.get("op"), str(message.get("id"))
        if op == "rules":
            self._book.take(message)
            return
        known = self._jobs.get(id)
        if known is None:
            return
        if op == "stop":
            self._stop(id, str(message["by"]), message.get("grace"))
            return
        if op == "start" and known.state == QUEUED:
            self._decisions.append(Start(id, entries.placement(message["placement"])))
        elif op == "preempt" and known.state == RUNNING:
            reason = str(message["reason"])
            self._decisions.append(Preempt(id, str(message["for"]), reason))
        elif op == "grow" and known.state == RUNNING:
            self._decisions.append(Grow(id, entries.placement(message["placement"])))
        elif op == "shrink" and known.state == RUNNING:
            members = wire.value(tuple[str, ...], message["members"])
            self._decisions.append(Shrink(id, members, str(message["for"])))
        elif op == "refuse":
            self._decisions.append(Refuse(id, str(message["reason"])))
        self._due()

    # ---- the scheduler --------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        return bool(self._decisions)

    def apply(self, event: events.Event) -> None:
        if isinstance(event, events.JobSubmitted):
            if event.id not in self._jobs:
                self._jobs[event.id] = Known(event)
                if self._link is not None and not self.away:
                    try:
                        self._tell(event.id)
                    except ArbiterAway as error:
                        self._lost(error)
            return
        if isinstance(event, events.GpuHeld):
            if self._started:  # of members that were to come besides, it hears that they do not
                self._say({"op": "declined", "id": self._started, "device": event.device})
            return
        known = self._jobs.get(getattr(event, "id", ""))
        if known is None:
            return
        if isinstance(event, events.JobStarted):
            known.state, known.placement = RUNNING, event.placement
            self._say({"op": "started", "id": event.id})
        elif isinstance(event, events.JobStopping):
            known.state = STOPPING
            self._say({"op": "stopping", "id": event.id})
        elif isinstance(event, events.JobGrown):
            known.placement = {**known.placement, **event.placement}
        elif isinstance(event, events.JobShrunk):
            gone = event.members
            known.placement = {m: s for m, s in known.placement.items() if m not in gone}
            self._say({"op": "shrunk", "id": event.id, "members": list(gone)})
        elif isinstance(event, events.JobCheckpointed):
            self._say({"op": "checkpointed", "id": event.id})
        elif isinstance(event, events.JobReleased):
            known.state, known.placement = QUEUED, {}
            self._say({"op": "released", "id": event.id})
        elif isinstance(event, events.JobEnded):
            del self._jobs[event.id]
            self._say({"op": "ended", "id": event.id})

    def decide(self, now: float) -> Sequence[Decision]:
        """One at a time: what follows from it may make the next one void."""
        while self._decisions:
            decision = self._decisions.popleft()
            known = self._jobs.get(decision.job)
            is_new = isinstance(decision, (Start, Refuse))
            if known is not None and known.state == (QUEUED if is_new else RUNNING):
                self._started = decision.job if isinstance(decision, Start) else ""
                return (decision,)
        return ()

    def wakes(self, now: float) -> float | None:
        return None

    def tick(self) -> None:
        """The arbiter has its own clock."""

    def admit(self, job: events.JobSubmitted, now: float) -> None:
        """While the arbiter is away everything is accepted, and looked at when it is back."""
        if self.away:
            return
        try:
            question(self.at, "admit", job=wire.plain(job))
        except ArbiterAway:
            return

    def why(self, job: str, now: float) -> Waiting:
        if self._link is not None and not self.away:
            try:
                found = self._link.ask("why", id=job)["waiting"]
                return wire.value(Waiting, found)
            except ArbiterAway as error:
                self._lost(error)
            except (KeyError, ValueError) as error:
                self._lost(ArbiterAway(f"it speaks nonsense: {error!r}"))
            finally:
                self._deliver()
        whose = self.about.get("user") or person(self.at.owner).name
        return Waiting(
            f"the arbiter of this machine, run by {whose}, cannot be asked ({self.away}); "
            "what runs goes on, and nothing new starts until it is back",
            "arbiter away",
            unblock=("dromon daemon restart --alone, to do without it",),
        )

    def would_preempt(self, job: str, now: float) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = question(self.at, "would_preempt", id=job)["victims"]
        return found

    def knows(self, job: str) -> bool:
        return job in self._jobs

    @property
    def someone_waits(self) -> bool:
        return any(known.state == QUEUED for known in self._jobs.values())

    def queues(self, now: float) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = question(self.at, "queues")["views"]
        return found

    def held(self) -> Mapping[str, str]:
        """The arbiter looks after those that somebody outside has."""
        return {}

    def free(self) -> Mapping[str, float]:
        found: Mapping[str, float] = self.room().get("free", {"cpus": 0.0, "memory": 0.0})
        return found

    def room(self) -> Message:
        """What is left, who has which GPU, who is on one without having asked; empty while the
        arbiter is away."""
        try:
            return question(self.at, "room") if not self.away else {}
        except DromonError:
            return {}
