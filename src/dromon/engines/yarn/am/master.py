"""The ApplicationMaster: containers for the gang, `coordinator` and `lifecycle` unchanged.

One thread decides; what blocks (the ResourceManager, the NodeManagers, HDFS, the web) has threads
of its own, which put what they hear into an inbox. Whatever an agent is told, and whatever is
started, waits until the journal has kept the event behind it.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from dromon.agent.frames import Message
from dromon.agent.protocol import VERSION
from dromon.coordinator.coordinator import BYE, STALE, Coordinator, Effect, Keep, Send
from dromon.coordinator.door import Admitted
from dromon.engines.yarn.am import exits, launch, preemption, standing
from dromon.engines.yarn.am.asks import Asks, Container
from dromon.engines.yarn.am.beats import Beats, News
from dromon.engines.yarn.am.closing import Closing
from dromon.engines.yarn.am.fences import Fences
from dromon.engines.yarn.am.gathering import Gathering
from dromon.engines.yarn.am.journal import Journal
from dromon.engines.yarn.am.nodes import Launch, Nodes, Outcome
from dromon.engines.yarn.am.peers import Peers
from dromon.engines.yarn.am.scheduler import AskRefused, Completed, Registration
from dromon.engines.yarn.am.side import ROLE as SIDE
from dromon.engines.yarn.am.side import Side
from dromon.errors import EngineError
from dromon.lifecycle import barrier, policy, states
from dromon.lifecycle import events as ev
from dromon.lifecycle.gang import Gang

LONGEST_TURN = 5.0
SICK = 3  # failed starts on one node in a row before it is avoided
STILLBORN = 4  # containers in a row that ended before their agent came: nobody will come


class Master:
    """`run` until the gang is over; then `closing` has brought everything home."""

    def __init__(
        self,
        request: Mapping[str, Any],
        *,
        gang: Gang,
        gathering: Gathering,
        epoch: int,
        host: str,
        key: bytes,
        tokens: bytes,
        nodes: Nodes,
        now: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.request = request
        self.gang = gang
        self.gathering = gathering
        self.epoch = epoch
        shapes = {name: (r["processes"], int(r["gpus"])) for name, r in request["roles"].items()}
        self.coordinator = Coordinator(gang, shapes=shapes, in_place=True)
        self.nodes = nodes
        self.beats: Beats | None = None
        self.journal: Journal | None = None
        self._key = key
        self._tokens = tokens
        self._now = now
        self._chance = chance
        self.peers = Peers(
            lambda job: key if job == gang.plan.job else None,
            epoch, self._on_hello, self._on_message, self._on_gone,
        )  # fmt: skip
        self.address = f"tcp:{host}:{self.peers.port}"
        self.inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.fences = Fences(request["lease"] + gang.plan.stop_grace)
        self.side = Side(request)
        self.closing: Closing | None = None
        self.superseded = ""
        self.trouble = ""  # why no container comes, where YARN or a node says so
        self._containers: dict[str, Container] = {}
        self._starting: set[str] = set()  # assigned, not yet started by their node
        self._met: set[str] = set()  # containers whose agent has come
        self._peer_member: dict[int, str] = {}
        self._strays: dict[str, int] = {}  # fenced member -> the line to its agent of before
        self._last_word: dict[str, float] = {}  # member -> when its agent was last told anything
        self._effects: deque[tuple[int, Effect | Launch]] = deque()
        self._barrier = self._durable = 0
        self._failed_starts: dict[str, int] = {}
        self._stillborn = 0
        self._preempted = False
        self._asked: Mapping[str, int] | None = None  # what the ResourceManager was last told
        self._told_state = ""
        self._heard_yarn = now()
        self.on_state: Callable[[], None] = lambda: None  # called when the job's state has changed
        self.runs: dict[tuple[str, int], None] = {}  # every run whose agent came to the barrier
        self._reads: dict[int, tuple[int, Callable[[Message | None], None]]] = {}  # by whom

    # ---- from other threads ---------------------------------------------------------------------

    def post(self, call: Callable[[], None]) -> None:
        """Have it done by the deciding thread, soon."""
        self.inbox.put(call)
        self.peers.wake()

    def on_news(self, news: News) -> None:
        self.post(lambda: self._hear_news(news))

    def on_end_of_beats(self, error: EngineError) -> None:
        if isinstance(error, AskRefused):
            cause = "impossible"
            self.post(lambda: self.happen(ev.PrepareFailed(cause, error.message)))
        else:
            self.post(lambda: self._be_superseded(error.message))

    def on_durable(self, through: int) -> None:
        def heard() -> None:
            self._durable = through
            self._carry_out()

        self.post(heard)

    def on_superseded(self) -> None:
        self.post(lambda: self._be_superseded("a later attempt has taken over"))

    def _be_superseded(self, why: str) -> None:
        self.superseded = why

    # ---- the one loop ---------------------------------------------------------------------------

    def run(self) -> None:
        """Until the job is over and all is brought home, or a later attempt has taken over."""
        self._settle()
        while not self.superseded and not (self.closing is not None and self.closing.is_done):
            self.peers.turn(self._patience())
            while True:
                try:
                    call = self.inbox.get_nowait()
                except queue.Empty:
                    break
                call()
            self._pass_time()
            self._settle()

    def _patience(self) -> float:
        times = [self.fences.first]
        if self.gang.wake_at is not None:
            times.append(self.gang.wake_at)
        if self.gang.state == states.QUEUED:
            now = self._now()
            later = (self.gathering.gives_way_at, self.gathering.asks_again_at)
            times += [moment for moment in later if moment > now]
        if self.closing is not None:
            times.append(self.closing.deadline)
        return min(LONGEST_TURN, max(0.0, min(times) - self._now()))

    def _pass_time(self) -> None:
        now = self._now()
        for member, message in self.fences.passed(now):
            known = self.gang.members.get(member)
            stray = self._part_with(member)
            if stray is not None:
                self.peers.hang_up(stray)
            if known is not None and known.is_live:
                self.happen(ev.MemberLost(member, known.run, message))
        wake_at = self.gang.wake_at
        if wake_at is not None and wake_at <= now:
            self.happen(ev.Tick())
        if self.closing is not None:
            self.closing.pass_time(now)

    def happen(self, event: ev.Event) -> None:
        self._enqueue(self.coordinator.on_event(event, self._now()))

    def _enqueue(self, effects: list[Effect]) -> None:
        assert self.journal is not None
        for effect in effects:
            if isinstance(effect, Keep):
                entry = {"time": effect.now, "event": effect.event.to_json()}
                self._barrier = self.journal.append(entry)
            else:
                self._effects.append((self._barrier, effect))
        self._carry_out()

    def _carry_out(self) -> None:
        starts: list[Launch] = []
        while self._effects and self._effects[0][0] <= self._durable:
            effect = self._effects.popleft()[1]
            if isinstance(effect, Launch):
                starts.append(effect)
            elif isinstance(effect, Send):
                # The last word is said when all is brought home: see `closing`.
                if effect.message["op"] != "bye" or not self.gang.is_terminal:
                    self.send(effect.peer, effect.message)
            elif isinstance(effect, ev.Release):
                self._on_release()
            elif isinstance(effect, ev.Finish):
                self._close()
        if starts:
            self.nodes_start(starts)

    def send(self, peer: int, message: Message) -> None:
        self.peers.send(peer, message)
        member = self._peer_member.get(peer)
        if member is not None:
            self._last_word[member] = self._now()

    # ---- containers -----------------------------------------------------------------------------

    def _settle(self) -> None:
        """Ask for what the gang lacks, give back what it does not need, start it when it can."""
        gang, now = self.gang, self._now()
        if gang.state != self._told_state:
            self._told_state = gang.state
            self.on_state()
        if not gang.is_terminal:
            self._give_up_absent()
        if gang.is_terminal or self.beats is None:
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
            self.beats.tell(ask)

    def _give_up_absent(self) -> None:
        """Who is to end, and has no container, has ended: nobody else would say so."""
        for name, known in list(self.gang.members.items()):
            is_owed = known.state == states.ENDING and not known.host
            if is_owed and self.gathering.container_of(name) is None:
                self.happen(ev.MemberLost(name, known.run, "it had no container"))

    def _needed(self) -> list[str]:
        gang = self.gang
        is_open = bool(gang.world) and gang.state in (states.STARTING, states.RUNNING)
        if not is_open and gang.state != states.STOPPING:
            return list(barrier.roster(gang.plan))
        # Those in the world keep their containers until the job is over, ended or not: a restart
        # finds them in place. Who came too late for this world would only hold room.
        return [name for name in barrier.roster(gang.plan) if name in gang.members]

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
            self.happen(ev.Placed(tuple(room)))

    def release(self, container: str) -> None:
        """Give it back. Whoever runs there is ended by YARN."""
        member = self.gathering.lose(container)
        held = self._containers.pop(container, None)
        self._starting.discard(container)
        if held is not None:
            self.nodes.ended(held)
        if self.journal is not None:
            self.journal.append({"released": container})
        if member is not None:
            peer = self.coordinator.peers.get(member)
            if peer is not None:
                self.peers.hang_up(peer)
        assert self.beats is not None
        self.beats.tell(lambda asks: asks.release(container))

    def _hear_news(self, news: News) -> None:
        heard = news.heard
        self._heard_yarn = self._now()
        self.nodes.learn(heard.tokens)
        if heard.registration is not None:
            self.nodes.learn(heard.registration.tokens)
        for container, role in news.granted:
            self._take(container, role)
        for done in heard.completed:
            self._container_over(done)
        if heard.preempted:
            self._on_preemption(heard.preempted)
        for role, lacking in news.shortages:
            words = f"YARN gives {role} containers without what was asked: {lacking}"
            self.happen(ev.PrepareFailed("impossible", words))

    def _take(self, container: Container, role: str) -> None:
        if self.gang.is_terminal:
            return self.release(container.id)
        self._asked = None  # the figures have changed
        if role == SIDE:
            return self._take_side(container)
        member = self.gathering.take(container.id, role, container.node, self._now())
        if member is None:
            return self.release(container.id)
        self._containers[container.id] = container
        assert self.journal is not None
        entry = {"container": container.id, "member": member, "node": container.node}
        self._barrier = self.journal.append(entry)
        context = launch.member(self.request, member, self.address, self.epoch, self._tokens)
        self._starting.add(container.id)
        self._effects.append((self._barrier, Launch(container, context)))

    def _take_side(self, container: Container) -> None:
        if not self.side.take(container.id):
            return self.release(container.id)
        context = launch.side(self.request, self._tokens)
        self._effects.append((self._barrier, Launch(container, context)))
        self._carry_out()

    def nodes_start(self, starts: list[Launch]) -> None:
        outcomes = self.nodes.start(starts)

        def wait() -> None:
            for outcome in outcomes:
                self.post(lambda outcome=outcome: self._started(outcome))  # type: ignore[misc]

        threading.Thread(target=wait, daemon=True).start()

    def _started(self, outcome: Outcome) -> None:
        container = outcome.container
        self._starting.discard(container.id)
        if outcome.ok:
            self._failed_starts.pop(container.node, None)
            return
        self.trouble = f"{container.node} did not start a container: {outcome.failure}"
        if container.id in self.gathering.held:
            self._asked = None
            self.release(container.id)
        failed = self._failed_starts.get(container.node, 0) + 1
        self._failed_starts[container.node] = failed
        if failed >= SICK and self.beats is not None:
            self.beats.tell(lambda asks: asks.avoid(container.node))

    def _container_over(self, done: Completed) -> None:
        member = self.gathering.lose(done.id)
        container = self._containers.pop(done.id, None)
        self._starting.discard(done.id)
        if container is not None:
            self.nodes.ended(container)
        ending = exits.read(done.status, done.diagnostics, complete=done.complete)
        if self.side.lose(done.id, ending.words):
            self._asked = None
        if member is None:
            return
        self._asked = None
        if self.closing is not None:
            return self.closing.on_lost(member)
        if done.id not in self._met:
            self._nobody_came(ending)
        known = self.gang.members.get(member)
        if known is None or not known.is_live or not known.host:
            return  # nothing of the member ran there
        if ending.kind == exits.LOST:
            self._fence(member, ending.message)
        elif ending.kind in (exits.EVICTED, exits.OUT_OF_MEMORY, exits.ENVIRONMENT):
            self.happen(ending.event(member, known.run, self._now()))
        else:
            # Whatever its member did, an agent would have told: it is the agent that was ended.
            words = f": {ending.message}" if ending.message else ""
            message = f"its agent ended without a word{words}"
            self.happen(ev.MemberLost(member, known.run, message))

    def _nobody_came(self, ending: exits.Ending) -> None:
        """Its agent never came. That may be the node's fault, once or twice."""
        self.trouble = f"a container ended before its agent came: {ending.words}"
        self._stillborn += ending.counts
        if ending.kind == exits.ENVIRONMENT or self._stillborn >= STILLBORN:
            lines = f" ({ending.last_lines[-1]})" if ending.last_lines else ""
            cause = "environment" if ending.kind == exits.ENVIRONMENT else "internal"
            self.happen(ev.PrepareFailed(cause, ending.words + lines))

    def _fence(self, member: str, message: str) -> None:
        """Its node may only be cut off: nothing replaces it before it must have ended itself."""
        peer = self.coordinator.peers.get(member)
        if peer is not None:
            self._strays[member] = peer
            grace = self.gang.plan.stop_grace
            self.send(peer, {"op": "stop", "grace": grace, "reason": "lost"})
        since = self._last_word.get(member, self._now())
        self.fences.put(member, since, message)

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
            self.happen(ev.PreemptRequested("YARN asked for its containers back", grace))
            return
        for member in found.stop:
            peer = self.coordinator.peers.get(member)
            if peer is not None:
                self.send(peer, {"op": "stop", "grace": grace, "reason": "preempt"})

    def _is_working(self, member: str) -> bool:
        known = self.gang.members.get(member)
        return known is not None and known.is_live

    def _on_release(self) -> None:
        """Every member has ended. After a preemption nothing is held on to."""
        self._asked = None
        if self._preempted:
            self._preempted = False
            for container in list(self.gathering.held):
                self.release(container)

    # ---- agents ---------------------------------------------------------------------------------

    def _on_hello(self, number: int, admitted: Admitted) -> None:
        member = admitted.member
        held = self.gathering.container_of(member)
        if held is None or held.id != admitted.place:
            # A container that is no longer ours: whatever still runs there must end.
            self.peers.send(number, STALE)
            known = self.gang.members.get(member)
            if member in self.fences.members and known and known.run == admitted.run:
                self._peer_member[number] = member  # we want to hear its end
                self._strays[member] = number
            else:
                self.peers.send(number, {"op": "bye"})
            return
        self._met.add(held.id)
        self._stillborn = 0
        self._peer_member[number] = member
        self._last_word[member] = self._now()  # the welcome
        if self.closing is not None:
            self.closing.on_hello(number, member)
            return
        effects = self.coordinator.on_hello(number, member, admitted.run)
        self._enqueue(effects)

    def _part_with(self, member: str) -> int | None:
        """Nothing begins any more where it was before: the line to its agent there."""
        stray = self._strays.pop(member, None)
        if stray is not None:
            self.coordinator.on_gone(stray)
            self._peer_member.pop(stray, None)
        return stray

    def _on_message(self, number: int, message: Message) -> None:
        op = message.get("op")
        member = self._peer_member.get(number)
        if member is None:
            return
        if op == "data":
            asked = self._reads.pop(int(message["id"]), None)
            if asked is not None:
                asked[1](message)
            return
        if op == "carry":
            other = self.coordinator.peers.get(str(message["to"]))
            if other is not None:
                self.send(other, message)
            return
        if op == "kept":
            if self.closing is not None:
                self.closing.on_kept(member, message)
            return
        if op == "alive":
            return self._renew(number, member, message)
        run = int(message.get("run", 0))
        if op == "ready":
            self.runs[member, run] = None
        is_lost = op == "exited" and self._strays.get(member) == number
        if is_lost:
            message = self._exit_of_lost(member, message)
            self._part_with(member)
        self._enqueue(self.coordinator.on_message(number, member, run, message, self._now()))
        if is_lost:
            self._enqueue([Send(number, BYE)])

    def _renew(self, number: int, member: str, message: Message) -> None:
        """A member may go on. At once, whatever the journal waits for. But not when YARN has not
        been heard for so long that it may have given this master's node up, and the member's with
        it: the next master, elsewhere, counts on members that end by themselves."""
        silent = self._now() - self._heard_yarn
        if member not in self.fences.members and silent < self.request["expiry"]:
            self.send(number, {"op": "alive", "asked": message["asked"]})

    def _exit_of_lost(self, member: str, message: Message) -> Message:
        """It ended because its node is lost, whatever its own record says."""
        words = self.fences.lift(member)
        return {**message, "exit": {**message["exit"], "cause": "lost", "message": words}}

    def _on_gone(self, number: int) -> None:
        member = self._peer_member.pop(number, None)
        if member is not None and self._strays.get(member) == number:
            del self._strays[member]
        self.coordinator.on_gone(number)
        for id in [id for id, (peer, _) in self._reads.items() if peer == number]:
            self._reads.pop(id)[1](None)
        if self.closing is not None:
            self.closing.on_gone()

    def read_log(
        self, member: str, name: str, offset: int, answer: Callable[[Message | None], None]
    ) -> None:
        """A piece of a growing log, from the agent that writes it; None: nobody is there."""
        peer = self.coordinator.peers.get(member)
        if peer is None:
            return answer(None)
        number = max(self._reads, default=0) + 1
        self._reads[number] = (peer, answer)
        self.peers.send(peer, {"op": "read", "id": number, "name": name, "offset": offset})

    # ---- the end --------------------------------------------------------------------------------

    def _close(self) -> None:
        self.closing = Closing(self)

    def close_again(self) -> None:
        """An earlier attempt came to the end of the job, and no further."""
        if self.closing is None:
            self.closing = Closing(self, [self.gathering.held[c].member for c in self._containers])

    # ---- what the next attempt finds ------------------------------------------------------------

    def recover(self, entries: list[dict[str, Any]]) -> None:
        """Hear again what earlier attempts kept."""
        for entry in entries:
            if "event" in entry:
                event = ev.from_json(entry["event"])
                self.coordinator.replay(event, float(entry["time"]))
                if isinstance(event, ev.MemberReady):
                    self.runs[event.member, event.run] = None
            elif "member" in entry:
                before = self.gathering.container_of(entry["member"])
                if before is not None:  # it ended, and this one took its place
                    self.gathering.lose(before.id)
                self.gathering.assign(entry["container"], entry["member"], entry["node"])
            else:
                self.gathering.lose(entry["released"])

    def adopt(self, registration: Registration) -> list[str]:
        """Containers that still run; the ids of those that nobody knows."""
        strange = []
        for container in registration.containers:
            if container.id in self.gathering.held:
                self._containers[container.id] = container
                self._met.add(container.id)
            else:
                strange.append(container.id)
        self.nodes.adopt(self._containers.values())
        return strange

    def missing_after(self, seen: set[str]) -> None:
        """Containers of earlier attempts of which YARN says nothing: their nodes are lost."""
        for container in [c for c in self.gathering.held if c not in self._containers]:
            if container not in seen:
                self._met.add(container)
                self._container_over(Completed(container, -100, "released on a *lost* node"))

    def status(self) -> dict[str, Any]:
        """For the web page, the client and the record."""
        return standing.of(self, VERSION)
