"""The agent's life: claim, connect, wait at the barrier, run, tell, leave. Or begin again.

One process, one thread (capture starts a second), forked by `launcher` or started by itself with
`python light.pyz agent PLAN.json`. It outlives whoever started it.
"""

import dataclasses
import json
import os
import signal
import sys
import time
import traceback
from typing import Dict, List, Optional, Sequence, Tuple

from dromon.agent import process
from dromon.agent.frames import Message
from dromon.agent.line import Line
from dromon.agent.link import Link
from dromon.agent.loop import Loop
from dromon.agent.place import Place
from dromon.agent.plan import AgentPlan
from dromon.agent.record import Record
from dromon.agent.run import EXITED, READY, Run, complain
from dromon.frameworks.world import World
from dromon.lifecycle import verdict

ABSENCE = 600.0  # how long a coordinator may be away while nothing runs
LOOK_AROUND = 5.0
PULSE = 15.0  # the coordinator is asked for a word at least this often, where there is a lease
FAREWELL = 1.0  # how long it may take to acknowledge when this machine goes down


class Agent:
    def __init__(
        self,
        plan: AgentPlan,
        place: Place,
        loop: Loop,
        born: Optional[Line] = None,
        at_once: bool = False,
    ) -> None:
        self._plan = plan
        self._at_once = at_once  # the world follows the launch: nobody waits for our `ready`
        self._place = place
        self._loop = loop
        place.open(self._loop.wake)
        self._loop.on_signals((signal.SIGCHLD, signal.SIGTERM), self._on_signal)
        self._run = Run(plan, self._loop, self._say)
        record = Record(plan.record)
        self._link = Link(
            self._loop, record, self._identity, self._state, self._hear, self._on_closed_record,
            place.seek, born, self._ask,
        )  # fmt: skip
        self._parting: Optional[Message] = None  # the last word, until all is brought home
        self._next: Optional[Tuple[int, int]] = None  # run and attempt to begin once this is over
        self._dismissed = False  # told `bye`: nothing keeps us once the run has ended
        self._offered = False  # to the coordinator: this process for another life
        self._accepted = False
        self._going_down = False  # this place is taken away: nothing begins here any more
        self._leaving = False
        self._away = time.monotonic()  # when the coordinator was last seen
        self._begun = 0.0  # when it last gave us a run

    @property
    def run(self) -> Run:
        return self._run

    def live(self) -> None:
        if self._plan.run and not self._run.prepare():
            return  # another agent has this run
        self._link.open()
        self._loop.after("look", LOOK_AROUND, self._look_around)
        if self._plan.lease is not None:
            self._keep_lease()
        while not self._leaving:
            self._loop.turn()

    def close(self) -> bool:
        """Whether this process is to live another agent's life."""
        stays = self._accepted and not self._going_down
        if stays:
            self._loop.rest()
        else:
            self._link.close()
            self._loop.close()
        return stays

    # ---- what happens ---------------------------------------------------------------------------

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._run.children_changed()
        elif number == signal.SIGTERM:
            self._going_down = True
            if self._run.phase == EXITED:
                self._leaving = True
            self._run.stop(self._plan.grace, verdict.EVICTED)
        else:
            self._run.woken()
            self._place_changed()

    def _place_changed(self) -> None:
        for message in self._place.words():
            self._link.send(message)
        parting = self._parting
        if parting is not None and self._place.bring_home(self._plan):
            self._parting = None
            self._tell(parting)
        elif self._next is not None and self._run.phase == EXITED and parting is None:
            self._begin()

    def _hear(self, message: Message) -> None:
        op = message.get("op")
        if op == "world":
            self._run.start(_world(message))
        elif op == "stop":
            self._run.stop(float(message["grace"]))
        elif op == "again":
            self._again(int(message["run"]), int(message["attempt"]))
        elif op == "bye":
            self._dismissed = True
            self._leaving = self._run.phase == EXITED and self._parting is None
            if self._offered and self._link.is_born:
                self._accepted = True
                self._link.let_go()  # what comes next is for the next life
        elif op == "launch" and self._offered:  # to this life it says no more than `bye`
            self._link.give_back(message)
            self._hear({"op": "bye"})
        else:
            self._place.hear(message)

    def _say(self, message: Message) -> None:
        """The run's words; before the last one, what it leaves is brought to safety."""
        if message["op"] == "exited" and not self._place.bring_home(self._plan):
            self._parting = message
            return
        self._tell(message)

    def _tell(self, message: Message) -> None:
        """On the way to the coordinator; the last word changes our life."""
        if message["op"] == "exited" and self._may_stay:
            self._offered = True
            message = {**message, "stays": True}
        self._link.send(message)
        if message["op"] == "exited":
            if self._dismissed:
                self._leaving = True
            elif self._going_down:
                self._loop.after("leave", FAREWELL, self._leave)
            elif self._next is not None:
                self._loop.after("again", 0.0, self._begin)

    @property
    def _may_stay(self) -> bool:
        """Whether all will be as it was before once we are told to leave."""
        awaited = self._dismissed or self._going_down or self._next is not None
        return not awaited and self._link.is_born and self._run.is_clean

    def _again(self, run: int, attempt: int) -> None:
        """The same place, a later run. What still runs here is wanted by nobody any more."""
        if self._going_down or run <= self._plan.run:
            return
        self._next = (run, attempt)
        if self._run.phase == EXITED:
            if self._parting is None:
                self._begin()
        else:
            self._run.stop(0.0)

    def _begin(self) -> None:
        """Everything anew but this process and its line."""
        if self._next is None or self._going_down:
            return
        run, attempt = self._next
        work = Record(self._plan.record).work(attempt)
        # The descriptors it held were let go of when the last run ended.
        plan = dataclasses.replace(self._plan, run=run, attempt=attempt, keep_fds=())
        trouble = ""
        try:
            if not self._place.lay_out(plan):
                return  # it wakes us, and we come back here
        except OSError as error:
            trouble = f"cannot prepare: {error}"
        self._next = None
        plan = dataclasses.replace(plan, work=work if os.path.isdir(work) else plan.work)
        self._plan = plan
        self._run = Run(plan, self._loop, self._say)
        self._begun = time.monotonic()
        self._ask()
        if not self._run.prepare(trouble):
            self._leaving = True
        elif self._run.phase != EXITED:
            self._link.send(self._run.state)

    def _state(self) -> Optional[Message]:
        if self._parting is not None:  # not yet: see `_say`
            return {"op": "alive", "run": self._plan.run, "asked": time.monotonic()}
        if self._at_once and self._run.phase == READY and self._link.is_born:
            return None
        return self._run.state if self._plan.run else None

    def _identity(self) -> Dict[str, object]:
        plan = self._plan
        place = {"place": plan.place} if plan.place else {}
        return {"job": plan.job, "member": plan.member, "run": plan.run, **place}

    def _on_closed_record(self) -> None:
        """The job ended while we were cut off; our exit was learnt from its record."""
        self._leaving = self._leaving or self._run.phase == EXITED

    # ---- time -----------------------------------------------------------------------------------

    def _leave(self) -> None:
        self._leaving = True

    def _look_around(self) -> None:
        """Nobody is obliged to fetch us: leave when nobody can come, or nobody came for long.

        A member at work is not alone; it goes on until its coordinator is back. But where the
        record was removed, there is no job any more.
        """
        self._loop.after("look", LOOK_AROUND, self._look_around)
        if self._link.is_up:
            self._away = time.monotonic()
            return
        phase = self._run.phase
        claimed = os.path.join(self._run.directory, "claim")
        is_orphan = self._plan.run > 0 and not os.path.exists(claimed)
        if phase in (READY, EXITED) and time.monotonic() - self._away > ABSENCE:
            is_orphan = True
        if is_orphan:
            self._place.orphaned()
            self._dismissed = self._going_down = True
            self._leaving = phase == EXITED
            self._run.stop(self._plan.grace, verdict.LOST)

    def _ask(self) -> None:
        """For a word that renews the lease."""
        if self._plan.lease is not None:
            asked = time.monotonic()
            self._link.send({"op": "alive", "run": self._plan.run, "asked": asked})

    def _keep_lease(self) -> None:
        """Ask the coordinator for a word well before the lease is over. Without an answer the line,
        which may look whole, is tried anew: another one may have taken over. Without one for all
        of the lease the member must end."""
        lease = self._plan.lease or 0.0
        now = time.monotonic()
        silence, step = now - self._link.heard, min(lease / 4, PULSE)
        # A line that has only just come up is not to blame for the silence before.
        if self._link.is_up and now - max(self._link.heard, self._link.up_since) > 2.5 * step:
            self._link.open()
        elif silence > 1.5 * step:
            self._place.seek()
        self._ask()
        left = lease - (now - max(self._link.heard, self._begun))
        if left <= 0 and self._run.phase != EXITED:
            self._run.stop(self._plan.grace, verdict.LOST)
        self._loop.after("lease", min(left, step) if left > 0 else step, self._keep_lease)


def run_agent(
    plan: AgentPlan,
    place: Optional[Place] = None,
    line: Optional[Line] = None,
    at_once: bool = False,
) -> bool:
    """Live one agent's life in this process, which must have no other use. Never raises.

    `line` is one to the coordinator that this process was forked with; `at_once`: what it says
    first is on it already. True when the life ended as it should and left nothing behind: the next
    launch will come over that line.
    """
    agent: Optional[Agent] = None
    loop = _loops.pop() if _loops else _become_agent()
    try:
        for fd in plan.keep_fds:
            os.set_inheritable(fd, True)
        agent = Agent(plan, place or Place(), loop, line, at_once)
        agent.live()
        stays = agent.close()
        if stays:
            _loops.append(loop)
        return stays
    except BaseException:
        trace = traceback.format_exc()
        if agent is not None:
            agent.run.crash(trace)
        else:
            complain(Record(plan.record).run(plan.member, plan.run), trace)
        return False


_worlds: List[World] = []  # the last one


def _world(message: Message) -> World:
    """A gang's members have one world: to an agent that has heard it, it is not said again."""
    if "world" in message:
        _worlds[:] = [World.from_json(message["world"])]
    return _worlds[0]


_loops: List[Loop] = []  # the one that this process goes on with in its next life


def _become_agent() -> Loop:
    """What a process must be to live agents' lives."""
    try:
        os.setsid()
    except PermissionError:  # leads a group already: somebody's shell started us
        pass
    process.become_subreaper()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return Loop()


def close_on_exec() -> None:
    """No descriptor that came to us by chance goes on to a member."""
    for entry in os.listdir("/proc/self/fd"):
        fd = int(entry)
        if fd > 2:
            try:
                os.set_inheritable(fd, False)
            except OSError:  # the one that listed them
                pass


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """`python light.pyz agent PLAN.json`"""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["agent"]:
        words = words[1:]
    if len(words) != 1:
        print("usage: agent PLAN.json", file=sys.stderr)
        return 64
    try:
        with open(words[0], encoding="utf-8") as file:
            plan = AgentPlan.from_json(json.loads(file.read()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"cannot read the plan {words[0]}: {error}", file=sys.stderr)
        return 65
    close_on_exec()
    run_agent(plan)
    return 0


if __name__ == "__main__":
    sys.exit(main())
