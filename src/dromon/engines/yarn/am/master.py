"""The ApplicationMaster: containers for the gang, `coordinator` and `lifecycle` unchanged.

One thread decides; what blocks (the ResourceManager, the NodeManagers, HDFS, the web) has threads
of its own, which put what they hear into an inbox. Whatever an agent is told, and whatever is
started, waits until the journal has kept the event behind it.
"""

from __future__ import annotations

import queue
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from dromon.agent.frames import Message
from dromon.coordinator.closing import Closing
from dromon.coordinator.coordinator import BYE, STALE, Coordinator, Effect, Keep, Send
from dromon.coordinator.door import Admitted
from dromon.coordinator.peers import Peers
from dromon.engines.yarn.am import standing
from dromon.engines.yarn.am.asks import Container
from dromon.engines.yarn.am.beats import Beats, News
from dromon.engines.yarn.am.containers import Containers
from dromon.engines.yarn.am.fences import Fences
from dromon.engines.yarn.am.gathering import Gathering
from dromon.engines.yarn.am.journal import Journal
from dromon.engines.yarn.am.leftlogs import LeftLogs
from dromon.engines.yarn.am.nodes import Launch, Nodes
from dromon.engines.yarn.am.partings import Parting, Partings
from dromon.engines.yarn.am.scheduler import AskRefused
from dromon.engines.yarn.am.side import Side
from dromon.errors import EngineError
from dromon.lifecycle import events as ev
from dromon.lifecycle import states
from dromon.lifecycle.gang import Gang
from dromon.lifecycle.verdict import EVICTED

LONGEST_TURN = 5.0


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
        self._now = now
        self.peers = Peers(
            lambda job: key if job == gang.plan.job else None,
            epoch, self._on_hello, self._on_message, self._on_gone,
        )  # fmt: skip
        self.address = f"tcp:{host}:{self.peers.port}"
        self.inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.fences = Fences(request["lease"] + gang.plan.stop_grace)
        self.partings = Partings()
        self._quiet = False  # nothing has happened in this turn that anything follows from
        self.side = Side(request)
        self.closing: Closing | None = None
        self.superseded = ""
        self._peer_member: dict[int, str] = {}
        self._strays: dict[str, int] = {}  # fenced member -> the line to its agent of before
        self._renewed: dict[str, float] = {}  # member -> when its lease was last renewed
        self._effects: deque[tuple[int, Effect | Launch | Callable[[], None]]] = deque()
        self._barrier = self._durable = 0
        self._told_state = ""
        self._heard_yarn = now()
        self.on_state: Callable[[], None] = lambda: None  # called when the job's state has changed
        # Every run whose agent came to the barrier -> its container.
        self.runs: dict[tuple[str, int], str] = {}
        self._left = LeftLogs(str(request["cluster"]["user"]))
        self.containers = Containers(self, tokens, now, chance)
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
            self._quiet = True
            self.peers.turn(self._patience())
            while True:
                try:
                    call = self.inbox.get_nowait()
                except queue.Empty:
                    break
                self._quiet = False
                call()
            self._pass_time()
            # Most of what a large gang says is that it is alive, and changes nothing.
            if not self._quiet or self.gang.state != states.RUNNING:
                self._settle()

    def _patience(self) -> float:
        times = [self.fences.first, self.partings.first]
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
        for parting in self.partings.passed(now):
            self.part(parting)
        wake_at = self.gang.wake_at
        if wake_at is not None and wake_at <= now:
            self.happen(ev.Tick())
        if self.closing is not None:
            self.closing.pass_time(now)

    def now(self) -> float:
        return self._now()

    def has_place(self, member: str) -> bool:
        return self.gathering.container_of(member) is not None

    def happen(self, event: ev.Event) -> None:
        self._enqueue(self.coordinator.on_event(event, self._now()))

    def _enqueue(self, effects: list[Effect]) -> None:
        self._quiet = self._quiet and not effects
        for effect in effects:
            if isinstance(effect, Keep):
                self.keep({"time": effect.now, "event": effect.event.to_json()})
            else:
                self._effects.append((self._barrier, effect))
        self._carry_out()

    def keep(self, entry: Mapping[str, Any]) -> None:
        """Whatever is to be done from now on waits until this is in the journal."""
        assert self.journal is not None
        self._barrier = self.journal.append(dict(entry))

    def after_keeping(self, call: Callable[[], None]) -> None:
        """Do it once all that has happened so far is in the journal."""
        self._effects.append((self._barrier, call))
        self._carry_out()

    def start(self, container: Container, context: Mapping[str, Any]) -> None:
        """Have it started, once the journal has caught up."""
        self._effects.append((self._barrier, Launch(container, context)))
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
                self.containers.on_release()
            elif isinstance(effect, ev.Finish):
                self._close()
            elif callable(effect):
                effect()
        if starts:
            self.containers.start(starts)

    def send(self, peer: int, message: Message) -> None:
        self.peers.send(peer, message)

    def _settle(self) -> None:
        if self.gang.state != self._told_state:
            self._told_state = self.gang.state
            self.on_state()
        self.containers.settle()

    def _hear_news(self, news: News) -> None:
        self._heard_yarn = self._now()
        self.containers.hear(news)

    def part(self, parting: Parting) -> None:
        """What the agent said counts."""
        number, member, message = parting.peer, parting.member, parting.message
        run = int(message["run"])
        self._enqueue(self.coordinator.on_message(number, member, run, message, self._now()))

    def fence(self, member: str, message: str) -> None:
        """Its node may only be cut off: nothing replaces it before it must have ended itself."""
        peer = self.coordinator.peers.get(member)
        if peer is not None:
            self._strays[member] = peer
            grace = self.gang.plan.stop_grace
            self.send(peer, {"op": "stop", "grace": grace, "reason": "lost"})
        since = self._renewed.get(member, self._now())
        self.fences.put(member, since, message)

    # ---- agents ---------------------------------------------------------------------------------

    def _on_hello(self, number: int, admitted: Admitted) -> None:
        self._quiet = False
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
        self.containers.meet(held.id)
        self._peer_member[number] = member
        self._renewed[member] = self._now()  # a new agent has had a lease since before this
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
        held = self.gathering.container_of(member)
        if op == "ready":
            self.runs[member, run] = held.id if held else ""
        is_lost = op == "exited" and self._strays.get(member) == number
        if op == "exited" and not is_lost and message["exit"]["cause"] == EVICTED and held:
            return self.partings.put(held.id, number, member, message, self._now())
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
            self._renewed[member] = self._now()
            self.send(number, {"op": "alive", "asked": message["asked"]})

    def _exit_of_lost(self, member: str, message: Message) -> Message:
        """It ended because its node is lost, whatever its own record says."""
        words = self.fences.lift(member)
        return {**message, "exit": {**message["exit"], "cause": "lost", "message": words}}

    def _on_gone(self, number: int) -> None:
        self._quiet = False
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
        """A piece of a growing log, from the agent that writes it; of a container that is over,
        from its node. None: nobody is there."""
        run = name[len(member) + 1 :].partition(".")[0]
        was = self.runs.get((member, int(run))) if run.isdigit() else None
        if was and was not in self.gathering.held:
            return self._left.read(name, was, self.containers.pages.get(was, ""), offset, answer)
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
            self.closing = Closing(
                self, [self.gathering.held[c].member for c in self.containers.known]
            )

    # ---- what the next attempt finds ------------------------------------------------------------

    def recover(self, entries: list[dict[str, Any]]) -> None:
        """Hear again what earlier attempts kept."""
        for entry in entries:
            if "event" in entry:
                event = ev.from_json(entry["event"])
                self.coordinator.replay(event, float(entry["time"]))
                if isinstance(event, ev.MemberReady):
                    place = self.gathering.container_of(event.member)
                    self.runs[event.member, event.run] = place.id if place else ""
            elif "member" in entry:
                before = self.gathering.container_of(entry["member"])
                if before is not None:  # it ended, and this one took its place
                    self.gathering.lose(before.id)
                self.gathering.assign(entry["container"], entry["member"], entry["node"])
                self.containers.pages[entry["container"]] = entry.get("http", "")
            else:
                self.gathering.lose(entry["released"])

    def status(self) -> dict[str, Any]:
        """For the web page, the client and the record."""
        return standing.of(self)
