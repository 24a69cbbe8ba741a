"""The coordinator beside the first member: sockets, clock and journal around `Coordinator`.

Members' exits, retries, back-off, deadlines and stop requests are decided here and done in place,
while the pods stay. The loss of a pod is Volcano's: it gives the job new pods, all of them, and the
next coordinator reads in the journal how far this one had come.
"""

from __future__ import annotations

import json
import os
import queue
import time
from collections.abc import Callable, Mapping
from typing import Any

from dromon.agent import exitrecord
from dromon.agent.frames import Message
from dromon.agent.record import Record
from dromon.coordinator import standing
from dromon.coordinator.closing import Closing
from dromon.coordinator.coordinator import Coordinator, Effect, Keep, Send
from dromon.coordinator.door import Admitted
from dromon.coordinator.leases import Leases
from dromon.coordinator.peers import Peers
from dromon.engines.kubernetes.pod import losses
from dromon.engines.kubernetes.pod.handover import SURE, Office
from dromon.engines.kubernetes.pod.journal import Journal
from dromon.lifecycle import barrier, states
from dromon.lifecycle import events as ev
from dromon.lifecycle.gang import Gang
from dromon.lifecycle.plan import GangPlan
from dromon.units import format_duration

# How the first pod ends. All but 0 have a TerminateJob policy, so that no pod is deleted.
FEWER, GIVE_UP, TIME_OVER, STOPPED = 200, 201, 202, 203
RELEASED = 143  # as on SIGTERM: Volcano gives the job new pods
LONGEST_TURN = 2.0
OFTEN = 0.2  # seconds between two statuses in the record


class Shell:
    """`home`: the job's record in the store, or a directory of this pod; `token`: of this pod;
    `dies_whole`: containers here are killed as one when they are out of memory."""

    def __init__(
        self,
        request: Mapping[str, Any],
        home: str,
        key: bytes,
        *,
        line_port: int,
        token: str = "",
        dies_whole: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.request = request
        self._home = Record(home)
        self._journal = Journal(home)
        self._now = now
        plan = GangPlan.from_json(request["gang"])
        self._history = history = self._journal.read()
        self._dies_whole = dies_whole
        self.gang = Gang.replay(plan, history, prepared=True)
        self._office = Office(home, token)
        self.epoch = self._office.epoch
        shapes = {name: (r["processes"], int(r["gpus"])) for name, r in request["roles"].items()}
        self.coordinator = Coordinator(self.gang, shapes=shapes, in_place=True)
        self.peers = Peers(
            lambda job: key if job == plan.job else None,
            self.epoch, self._on_hello, self._on_message, self._on_gone, line_port,
        )  # fmt: skip
        self.runs: dict[tuple[str, int], None] = {
            (event.member, event.run): None
            for _, event in history if isinstance(event, ev.MemberReady)
        }  # fmt: skip
        self._leases = Leases(float(request["lease"]), float(request["grace"]))
        self.closing: Closing | None = None
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._member_of: dict[int, str] = {}
        self._run_of: dict[int, int] = {}
        self._places: dict[str, tuple[str, str]] = {}  # member -> pod and node
        self._reads: dict[int, tuple[int, Callable[[Message | None], None]]] = {}
        self._released = False
        self._sure_until = 0.0
        self._alone_at = 0.0  # when no coordinator before this one can still be at work
        self._superseded = False
        self._kept_before: list[dict[str, Any]] = []  # outputs of a job that was over before this
        self._is_news, self._told = True, 0.0

    # ---- for others -----------------------------------------------------------------------------

    def now(self) -> float:
        return self._now()

    def post(self, call: Callable[[], None]) -> None:
        self._inbox.put(call)
        self.peers.wake()

    def has_place(self, member: str) -> bool:
        return member in self._places

    def send(self, peer: int, message: Message) -> None:
        self.peers.send(peer, message)

    def after_keeping(self, call: Callable[[], None]) -> None:
        self._journal.settle()
        call()

    def status(self) -> dict[str, Any]:
        def about(member: str) -> dict[str, str]:
            pod, node = self._places.get(member, ("", ""))
            return {"pod": pod, "node": node}

        counts = barrier.count(list(self._places))
        roles = self.request["roles"].items()
        return {
            **standing.of(self, self.runs, about),
            "epoch": self.epoch,
            "missing": {name: role["replicas"] - counts.get(name, 0) for name, role in roles},
            "held": len(self._places),
            "tensorboard": False,
            "trouble": "",
            "outputs": self._kept_before
            or (list(self.closing.outputs.values()) if self.closing else []),
        }

    # ---- the one loop ---------------------------------------------------------------------------

    def run(self) -> int:
        """Until the job is over or its pods are to be replaced; the exit code of the first pod."""
        self._alone_at = self._now() + self._office.enter()
        self._recover()
        if self.gang.is_terminal:  # it got new pods although it was over: they are sent away
            self._kept_before = _outputs_in(self._home.status)
            self.closing = Closing(self, list(barrier.roster(self.gang.plan)))
        while not (self._released or self._superseded):
            self.peers.turn(self._patience())
            while True:
                try:
                    call = self._inbox.get_nowait()
                except queue.Empty:
                    break
                call()
            self._pass_time()
            self._tell_state()
            if self.closing is not None and self.closing.is_done:
                break
        if not self._superseded:
            self._journal.settle()
            write_whole(self._home.status, self.status())
        return self._code()

    def _code(self) -> int:
        verdict = self.gang.verdict
        if not self.gang.is_terminal or verdict is None:
            return RELEASED
        if self.gang.state == states.SUCCEEDED:
            pods = sum(role["replicas"] for role in self.request["roles"].values())
            # Pods that never came would keep the job waiting for them, were this 0.
            return 0 if len(self._places) == pods else FEWER
        if self.gang.state == states.STOPPED:
            return STOPPED
        return TIME_OVER if verdict.cause == "timeout" else GIVE_UP

    def _patience(self) -> float:
        times = [self._now() + LONGEST_TURN]
        if self._alone_at:
            times.append(self._alone_at)
        if self.gang.wake_at is not None:
            times.append(self.gang.wake_at)
        if self.closing is not None:
            times.append(self.closing.deadline)
        if self._is_news:
            times.append(self._told + OFTEN)
        return max(0.0, min(times) - self._now())

    def _pass_time(self) -> None:
        now = self._now()
        wake_at = self.gang.wake_at
        if wake_at is not None and wake_at <= now:
            self.happen(ev.Tick())
        if self._alone_at and self._alone_at <= now:
            self._alone_at = 0.0
            self._place()
        if self._is_sure():
            self._miss_the_silent(now)
        if self.gang.is_terminal and self.closing is None:
            self.closing = Closing(self)
        if self.closing is not None:
            self.closing.pass_time(now)

    def _miss_the_silent(self, now: float) -> None:
        """Who was not heard of until its lease was over has ended: an agent that cannot find us any
        more, or hangs, while its pod is well as far as Volcano knows."""
        runs = {name: m.run for name, m in self.gang.members.items() if m.is_live}
        for name in self._leases.over(runs, now):
            words = f"not heard of for {format_duration(self._leases.silence(name, now))}"
            self.happen(ev.MemberLost(name, runs[name], words))

    def _tell_state(self) -> None:
        """What follows from what was heard, for whoever looks into the record."""
        if self._is_news and self._now() >= self._told + OFTEN and not self._superseded:
            self._is_news, self._told = False, self._now()
            write_whole(self._home.status, self.status())

    def _recover(self) -> None:
        """Every pod is new, so whatever ran has ended: by its record, or with its pod."""
        for name, member in list(self.gang.members.items()):
            if not member.is_live:
                continue
            exit = exitrecord.read(self._home.exit(name, member.run))
            if exit is not None:
                self.happen(ev.MemberExited(name, member.run, exit.to_json()))
                continue
            events = [event for _, event in self._history]
            whole, now = self._dies_whole, self._now()
            self.happen(losses.end_of(name, member.run, events, dies_whole=whole, now=now))
        self._released = False

    # ---- agents ---------------------------------------------------------------------------------

    def _on_hello(self, number: int, admitted: Admitted) -> None:
        member = admitted.member
        pod, _, node = admitted.place.partition("@")
        self._places[member] = (pod, node)
        self._leases.hear(member, self._now())
        self._member_of[number], self._run_of[number] = member, admitted.run
        self._is_news = True
        if self.closing is not None:
            self.closing.on_hello(number, member)
            return
        self._carry_out(self.coordinator.on_hello(number, member, admitted.run))
        self._place()

    def _on_message(self, number: int, message: Message) -> None:
        op, member = message.get("op"), self._member_of.get(number)
        if member is None:
            return
        self._leases.hear(member, self._now())
        if op == "data":
            asked = self._reads.pop(int(message["id"]), None)
            if asked is not None:
                asked[1](message)
        elif op == "carry":
            other = self.coordinator.peers.get(str(message["to"]))
            if other is not None:
                self.send(other, message)
        elif op == "kept":
            if self.closing is not None:
                self.closing.on_kept(member, message)
        elif op != "alive" or self._is_sure():
            run = int(message.get("run", self._run_of[number]))
            if op == "ready":
                self.runs[member, run] = None
            now = self._now()
            self._carry_out(self.coordinator.on_message(number, member, run, message, now))

    def _on_gone(self, number: int) -> None:
        """Nothing is concluded from it: whether the pod is lost is for Volcano to say."""
        self._member_of.pop(number, None)
        self._run_of.pop(number, None)
        self.coordinator.on_gone(number)
        for id in [id for id, (peer, _) in self._reads.items() if peer == number]:
            self._reads.pop(id)[1](None)
        if self.closing is not None:
            self.closing.on_gone()

    def _is_sure(self) -> bool:
        """Members may go on as long as this is the job's coordinator. One whose node is cut off,
        or the store away, cannot know that: another one may have taken over elsewhere."""
        now = self._now()
        if now < self._sure_until:
            return True
        try:
            self._superseded = not self._office.is_ours()
        except (OSError, ValueError):
            return False
        self._sure_until = now + SURE
        return not self._superseded

    def read_log(
        self, member: str, name: str, offset: int, answer: Callable[[Message | None], None]
    ) -> None:
        """A piece of a growing log, from the agent that writes it; None: nobody is there."""
        peer = self.coordinator.peers.get(member)
        if peer is None:
            return answer(None)
        number = max(self._reads, default=0) + 1
        self._reads[number] = (peer, answer)
        self.send(peer, {"op": "read", "id": number, "name": name, "offset": offset})

    # ---- runs -----------------------------------------------------------------------------------

    def _place(self) -> None:
        """Agents of members that do not run are room for the gang."""
        if self._alone_at:
            return
        gang, members = self.gang, self.gang.members
        room = [m for m in self.coordinator.peers if m not in members or not members[m].is_live]
        queued = gang.state == states.QUEUED and barrier.is_enough(gang.plan, room)
        gathering = gang.state == states.STARTING and not gang.world
        if room and (queued or gathering):
            self.happen(ev.Placed(tuple(room)))

    def happen(self, event: ev.Event) -> None:
        self._carry_out(self.coordinator.on_event(event, self._now()))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Keep):
                self._journal.append(effect.event, effect.now)
                self._is_news = True
            elif isinstance(effect, Send):
                # The last word is said when all is brought home: see `closing`.
                if effect.message["op"] != "bye" or not self.gang.is_terminal:
                    self._journal.settle()
                    self.send(effect.peer, effect.message)
            elif isinstance(effect, ev.Release):
                self._released = True


def _outputs_in(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            return list(json.load(file)["outputs"])
    except (OSError, ValueError, KeyError):
        return []


def write_whole(path: str, data: Mapping[str, Any]) -> None:
    draft = f"{path}.{os.getpid()}.partial"  # a number at the end would be a run
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(data, file)
    os.replace(draft, path)
