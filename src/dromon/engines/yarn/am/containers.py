"""The containers of a job: asked for, taken, started, given back; what the end of one means.

Decides by what `gathering`, `fences`, `preemption` and `exits` say; asks nobody itself. `Master` is
its way to the gang, to the journal and to the agents.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from dromon.engines.yarn.am import exits, launch, preemption
from dromon.engines.yarn.am.asks import Asks, Container
from dromon.engines.yarn.am.beats import News
from dromon.engines.yarn.am.nodes import Launch, Outcome
from dromon.engines.yarn.am.scheduler import Completed, Registration
from dromon.engines.yarn.am.side import ROLE as SIDE
from dromon.lifecycle import barrier, policy, states
from dromon.lifecycle import events as ev
from dromon.lifecycle.verdict import ENVIRONMENT, INTERNAL, Exit

if TYPE_CHECKING:
    from dromon.engines.yarn.am.master import Master

SICK = 3  # failed starts on one node in a row before it is avoided
STILLBORN = 4  # containers in a row that ended before their agent came: nobody will come
_TOLD = (exits.EVICTED, exits.OUT_OF_MEMORY, exits.ENVIRONMENT)  # YARN knows best


class Containers:
    def __init__(
        self,
        master: Master,
        tokens: bytes,
        now: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self._master = master
        self._tokens = tokens
        self._now = now
        self._chance = chance
        self.request = master.request
        self.gang = master.gang
        self.gathering = master.gathering
        self.coordinator = master.coordinator
        self.nodes = master.nodes
        self.fences = master.fences
        self.side = master.side
        self.trouble = ""  # why none comes, where YARN or a node says so
        self.known: dict[str, Container] = {}
        self.pages: dict[str, str] = {}  # container, also an ended one -> its node's web page
        self._met: set[str] = set()  # those whose agent has come
        self._failed_starts: dict[str, int] = {}  # by node
        self._stillborn = 0
        self._preempted = False
        self._asked: Mapping[str, int] | None = None  # what the ResourceManager was last told

    def meet(self, container: str) -> None:
        """Its agent has come."""
        self._met.add(container)
        self._stillborn = 0

    def settle(self) -> None:
        """Ask for what the gang lacks, give back what it does not need, start it when it can."""
        gang, now = self.gang, self._now()
        if not gang.is_terminal:
            self._give_up_absent()
        beats = self._master.beats
        if gang.is_terminal or beats is None:
            return
        self.gathering.needed = self._needed()
        for container in self.gathering.surplus():
            self.release(container)
        self._place()
        missing = dict(self.gathering.missing(now, self.fences.members))
        # With a container for everybody only agents are on their way, and they will come.
        if gang.state == states.QUEUED and any(missing.values()):
            for container in self.gathering.give_way(now, self._chance()):
                self.release(container)
            missing = dict(self.gathering.missing(now, self.fences.members))

        missing.update(self.side.missing(bool(gang.world)))

        def ask(asks: Asks) -> None:
            for role, count in missing.items():
                asks.expect(role, count)

        if missing != self._asked:
            self._asked = missing
            beats.tell(ask)

    def _give_up_absent(self) -> None:
        """Who is to end, and has no container, has ended: nobody else would say so."""
        for name, known in list(self.gang.members.items()):
            is_owed = known.state == states.ENDING and not known.host
            if is_owed and self.gathering.container_of(name) is None:
                self._master.happen(ev.MemberLost(name, known.run, "it had no container"))

    def _needed(self) -> list[str]:
        gang = self.gang
        is_open = bool(gang.world) and gang.state in (states.STARTING, states.RUNNING)
        if not is_open and gang.state != states.STOPPING:
            return list(barrier.roster(gang.plan))
        # Those in the world keep their containers until the job is over, ended or not: a restart
        # finds them in place. Who came too late for this world would only hold room; what an ended
        # one had to give back is not asked for again before there is a restart.
        spared = is_open or self._preempted
        return [
            name
            for name in barrier.roster(gang.plan)
            if (known := gang.members.get(name)) is not None
            and (known.is_live or not spared or self.gathering.container_of(name) is not None)
        ]

    def _place(self) -> None:
        """Agents of members that do not run are room for the gang."""
        if self._preempted:
            return  # all of it is about to be given back
        gang, members = self.gang, self.gang.members
        room = [m for m in self.coordinator.peers if m not in members or not members[m].is_live]
        queued = gang.state == states.QUEUED and barrier.is_enough(gang.plan, room)
        gathering = gang.state == states.STARTING and not gang.world
        fresh = [m for m in room if m not in members] if gathering else room
        if fresh and (queued or gathering):
            self._master.happen(ev.Placed(tuple(room)))

    def release(self, container: str) -> None:
        """Give it back. Whoever runs there is ended by YARN."""
        member = self.gathering.lose(container)
        held = self.known.pop(container, None)
        if held is not None:
            self.nodes.ended(held)
        if self._master.journal is not None:
            self._master.journal.append({"released": container})
        if member is not None:
            peer = self.coordinator.peers.get(member)
            if peer is not None:
                self._master.peers.hang_up(peer)
        assert self._master.beats is not None
        self._master.beats.tell(lambda asks: asks.release(container))

    # ---- what is heard --------------------------------------------------------------------------

    def hear(self, news: News) -> None:
        """What a beat brought."""
        heard = news.heard
        self.nodes.learn(heard.tokens)
        if heard.registration is not None:
            self.nodes.learn(heard.registration.tokens)
        for container, role in news.granted:
            self._take(container, role)
        for done in heard.completed:
            self._over(done)
        if heard.preempted:
            self._on_preemption(heard.preempted)
        for role, lacking in news.shortages:
            self.trouble = f"YARN gives {role} containers without what was asked: {lacking}"
            if self.gang.state == states.QUEUED:  # told with every beat; later it changes nothing
                self._master.happen(ev.PrepareFailed("impossible", self.trouble))

    def _take(self, container: Container, role: str) -> None:
        if self.gang.is_terminal:
            return self.release(container.id)
        self._asked = None  # the figures have changed
        if role == SIDE:
            return self._take_side(container)
        member = self.gathering.take(container.id, role, container.node, self._now())
        if member is None:
            return self.release(container.id)
        self.known[container.id] = container
        self.pages[container.id] = container.http
        master = self._master
        master.keep(
            {
                "container": container.id, "member": member, "node": container.node,
                "http": container.http,
            }
        )  # fmt: skip
        context = launch.member(self.request, member, master.address, master.epoch, self._tokens)
        master.start(container, context)

    def _take_side(self, container: Container) -> None:
        if not self.side.take(container.id):
            return self.release(container.id)
        self._master.start(container, launch.side(self.request, self._tokens))

    def start(self, starts: list[Launch]) -> None:
        outcomes = self.nodes.start(starts)

        def wait() -> None:
            for outcome in outcomes:
                self._master.post(lambda outcome=outcome: self._started(outcome))  # type: ignore[misc]

        threading.Thread(target=wait, daemon=True).start()

    def _started(self, outcome: Outcome) -> None:
        container = outcome.container
        if outcome.ok:
            self._failed_starts.pop(container.node, None)
            return
        self.trouble = f"{container.node} did not start a container: {outcome.failure}"
        if container.id in self.gathering.held:
            self._asked = None
            self.release(container.id)
        failed = self._failed_starts.get(container.node, 0) + 1
        self._failed_starts[container.node] = failed
        if failed >= SICK and self._master.beats is not None:
            self._master.beats.tell(lambda asks: asks.avoid(container.node))

    def _over(self, done: Completed) -> None:
        member = self.gathering.lose(done.id)
        container = self.known.pop(done.id, None)
        if container is not None:
            self.nodes.ended(container)
        ending = exits.read(done.status, done.diagnostics, complete=done.complete)
        if self.side.lose(done.id, ending.words):
            self._asked = None
        if member is None:
            return
        self._asked = None
        if self._master.closing is not None:
            return self._master.closing.on_lost(member)
        if done.id not in self._met:
            self._nobody_came(member, ending)
        parting = self._master.partings.take(done.id)
        known = self.gang.members.get(member)
        if known is None or not known.is_live or not known.host:
            return  # nothing of the member ran there
        if parting is not None and not ending.is_limit:
            self._master.part(parting)
        elif ending.kind == exits.LOST:
            self._master.fence(member, ending.message)
        elif ending.is_limit or ending.kind in _TOLD:
            self._master.happen(ending.event(member, known.run, self._now()))
        else:
            # Whatever its member did, an agent would have told: it is the agent that was ended.
            words = f": {ending.message}" if ending.message else ""
            message = f"its agent ended without a word{words}"
            self._master.happen(ev.MemberLost(member, known.run, message))

    def _nobody_came(self, member: str, ending: exits.Ending) -> None:
        """Its agent never came. That may be the node's fault, once or twice."""
        self.trouble = f"a container ended before its agent came: {ending.words}"
        self._stillborn += ending.counts
        if ending.kind != exits.ENVIRONMENT and self._stillborn < STILLBORN:
            return
        self._stillborn = 0
        lines = f" ({ending.last_lines[-1]})" if ending.last_lines else ""
        cause = ENVIRONMENT if ending.kind == exits.ENVIRONMENT else INTERNAL
        known = self.gang.members.get(member)
        if self.gang.state == states.QUEUED or known is None or not known.is_live:
            self._master.happen(ev.PrepareFailed(cause, ending.words + lines))
        elif not known.host:
            # Of a gang at work one that begins again: it has failed, and that counts.
            message = f"its agent never came: {ending.words}{lines}"
            failed = Exit(ending.code, ending.signal, cause, message, ended=self._now())
            self._master.happen(ev.MemberExited(member, known.run, failed.to_json()))

    # ---- preemption -----------------------------------------------------------------------------

    def _on_preemption(self, wanted: tuple[str, ...]) -> None:
        held = {container: place.member for container, place in self.gathering.held.items()}
        working = [member for member in held.values() if self._is_working(member)]
        found = preemption.answer(wanted, held, working)
        for container in found.release:
            self.release(container)
        if not found.stop or self._preempted:
            return
        grace, plan = self.request["grace"], self.gang.plan
        actions = {
            policy.action_for(plan, barrier.role_of(member), ("member_evicted",))
            for member in found.stop
        }
        if "restart_job" in actions:
            self._preempted = True
            self._master.happen(ev.PreemptRequested("YARN asked for its containers back", grace))
            return
        for member in found.stop:
            peer = self.coordinator.peers.get(member)
            if peer is not None:
                self._master.send(peer, {"op": "stop", "grace": grace, "reason": "preempt"})

    def _is_working(self, member: str) -> bool:
        known = self.gang.members.get(member)
        return known is not None and known.is_live

    def on_release(self) -> None:
        """Every member has ended. After a preemption nothing is held on to."""
        self._asked = None
        if self._preempted:
            self._preempted = False
            for container in list(self.gathering.held):
                self.release(container)

    # ---- of earlier attempts --------------------------------------------------------------------

    def adopt(self, registration: Registration) -> list[str]:
        """Of earlier attempts, containers that still run; the ids of those that nobody knows."""
        strange = []
        for container in registration.containers:
            if container.id in self.gathering.held:
                self.known[container.id] = container
                self._met.add(container.id)
            else:
                strange.append(container.id)
        self.nodes.adopt(self.known.values())
        return strange

    def missing_after(self, seen: set[str]) -> None:
        """Containers of earlier attempts of which YARN says nothing: their nodes are lost."""
        for container in [c for c in self.gathering.held if c not in self.known]:
            if container not in seen:
                self._met.add(container)
                self._over(Completed(container, -100, "released on a *lost* node"))
