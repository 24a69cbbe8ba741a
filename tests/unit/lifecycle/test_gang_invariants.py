"""Whatever a gang hears, honest or not, in whatever order: what must always hold."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from dromon.lifecycle import events, states
from dromon.lifecycle.events import Command, Event
from dromon.lifecycle.gang import Gang
from dromon.lifecycle.plan import ACTIONS, FOLLOWS, REQUIRED, SERVES, GangPlan, RolePlan
from dromon.lifecycle.verdict import Exit

KEYS = (
    "member_failed", "member_evicted", "member_lost", "role_completed",
    "exit_code:0", "exit_code:3", "exit_code:137", "pending:20s",
)  # fmt: skip
policies = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(ACTIONS), max_size=3)
pauses = st.sampled_from([0.0, 0.1, 1.0, 5.0, 9.7, 10.0, 30.0, 61.0, 700.0])
names = st.sampled_from(["a-0", "a-1", "a-2", "b-0", "b-1", "stranger-0", "a-99", "nonsense"])
exits = st.builds(
    Exit,
    code=st.sampled_from([None, 0, 0, 1, 3]),
    signal=st.sampled_from([None, 9, 15, 77]),
    cause=st.sampled_from(["success", "user_error", "out_of_memory", "evicted", "lost"]),
    ended=st.sampled_from([0.0, 5.0, 6.0]),
    stopped=st.booleans(),
).map(Exit.to_json)


@st.composite
def roles(draw: Any, name: str) -> RolePlan:
    replicas = draw(st.integers(1, 3 if name == "a" else 2))
    return RolePlan(
        name,
        replicas,
        draw(st.integers(0, replicas)),
        draw(st.sampled_from([REQUIRED, FOLLOWS, SERVES])),
        draw(policies),
    )


@st.composite
def plans(draw: Any) -> GangPlan:
    some = [draw(roles("a"))] + ([draw(roles("b"))] if draw(st.booleans()) else [])
    return GangPlan(
        job="job-abc234",
        framework="none",
        roles=tuple(some),
        policies=draw(policies),
        max_retries=draw(st.integers(0, 3)),
        backoff=draw(st.sampled_from([0.0, 0.3, 10.0])),
        max_duration=draw(st.sampled_from([None, 0.7, 20.0, 1000.0])),
        gang_wait=draw(st.sampled_from([0.0, 0.1, 10.0])),
        linger=draw(st.sampled_from([0.0, 5.0])),
    )


class AnyShell(RuleBasedStateMachine):
    """A shell that says whatever it likes, and checks every answer against its own books."""

    @initialize(plan=plans(), prepared=st.booleans())
    def begin(self, plan: GangPlan, prepared: bool) -> None:
        self.plan, self.prepared = plan, prepared
        self.gang = Gang(plan, prepared=prepared)
        self.now = 1000.0
        self.journal: list[tuple[float, Event]] = []
        self.runs: dict[str, int] = {}  # the latest run of each member
        self.live: dict[str, int] = {}  # runs that may have a process
        self.ready: set[str] = set()  # of the live runs
        self.delivered: set[tuple[str, int]] = set()
        self.ranks: dict[int, dict[str, int]] = {}  # attempt -> member -> rank
        self.first_launch: dict[int, float] = {}
        self.is_all = False  # the engine has said so
        self.resized: set[int] = set()  # attempts whose members were named before they began
        self.finished = 0

    # ---- the books ------------------------------------------------------------------------------

    def hear(self, event: Event) -> list[Command]:
        over = self.gang.is_terminal
        before = self.gang.state
        self.journal.append((self.now, event))
        self.note(event)
        commands = self.gang.step(event, self.now)
        assert not (over and commands), "a command after the end"
        assert not over or self.gang.state == before, "an end that is not final"
        if self.gang.going:
            self.resized.add(self.gang.attempt + 1)
        if isinstance(event, (events.StopRequested, events.PreemptRequested)):
            live = [self.gang.members[name].state for name in self.live]
            assert set(live) <= {states.ENDING}, "somebody was not told"
        for command in commands:
            getattr(self, f"check_{type(command).__name__}")(command)
        assert self.gang.retries_used <= self.plan.max_retries
        assert self.gang.is_terminal == (self.finished == 1)
        assert (self.gang.verdict is not None) == self.gang.is_terminal
        if isinstance(event, events.Tick) and self.gang.wake_at is not None:
            assert self.gang.wake_at > self.now, "a tick that would be wanted again at once"
        return commands

    def note(self, event: Event) -> None:
        name = getattr(event, "member", "")
        if name not in self.live or self.live[name] != event.run or self.gang.is_terminal:
            return
        if isinstance(event, events.MemberReady):
            self.ready.add(name)
        elif not isinstance(event, events.MemberStarted):
            del self.live[name]
            self.ready.discard(name)

    def check_Launch(self, command: events.Launch) -> None:  # noqa: N802
        name = command.member
        assert name not in self.live, "two live runs of one member"
        assert command.run == self.runs.get(name, 0) + 1
        assert command.attempt == self.gang.attempt
        self.runs[name] = self.live[name] = command.run
        self.first_launch.setdefault(command.attempt, self.now)

    def check_OpenBarrier(self, command: events.OpenBarrier) -> None:  # noqa: N802
        members = [seat[0] for seat in command.world]
        ranks = {seat[0]: seat[1] for seat in command.world}
        assert [seat[1] for seat in command.world] == list(range(len(members)))
        assert len(ranks) == len(members) > 0
        assert set(command.deliver_to) <= self.ready & set(members)
        assert command.attempt == self.gang.attempt
        if command.attempt not in self.ranks:
            counts = {r.name: sum(m.startswith(r.name) for m in members) for r in self.plan.roles}
            waited = self.now >= self.first_launch[command.attempt] + self.plan.gang_wait
            is_full = all(counts[r.name] == r.replicas for r in self.plan.roles)
            assert is_full or waited or command.attempt in self.resized, "opened too soon"
            launched = [n for n in self.live if self.gang.members[n].state == states.LAUNCHED]
            assert not (self.is_all and launched), "opened without one who was to come"
            assert all(counts[r.name] >= r.min for r in self.plan.roles), "opened below min"
            assert command.deliver_to == tuple(members)
        assert self.ranks.setdefault(command.attempt, ranks) == ranks, "the world has changed"

    def check_StopMember(self, command: events.StopMember) -> None:  # noqa: N802
        assert self.live.get(command.member) == command.run, "a stop for a stale run"
        assert command.grace >= 0

    def check_Release(self, command: events.Release) -> None:  # noqa: N802
        assert not self.live, "released while members live"
        assert self.gang.state == states.QUEUED

    def check_Finish(self, command: events.Finish) -> None:  # noqa: N802
        assert not self.live, "finished while members live"
        assert command.state == self.gang.state
        self.finished += 1
        assert self.finished == 1

    # ---- what happens ---------------------------------------------------------------------------

    @rule(pause=pauses)
    def time_passes(self, pause: float) -> None:
        self.now += pause
        self.hear(events.Tick())

    @precondition(lambda self: self.gang.wake_at is not None)
    @rule()
    def wakes_when_asked(self) -> None:
        self.now = max(self.now, self.gang.wake_at or 0.0)
        self.hear(events.Tick())

    @rule(ok=st.integers(0, 9))
    def prepared_or_not(self, ok: int) -> None:
        self.hear(events.Prepared() if ok else events.PrepareFailed("environment", "no torch"))

    @rule(some=st.frozensets(names), everybody=st.booleans(), is_all=st.booleans())
    def placed(self, some: frozenset[str], everybody: bool, is_all: bool) -> None:
        plan = [f"{r.name}-{i}" for r in self.plan.roles for i in range(r.replicas)]
        was_queued = self.gang.state == states.QUEUED
        self.hear(events.Placed(tuple(plan if everybody else sorted(some)), is_all))
        if was_queued and self.gang.state != states.QUEUED:
            self.is_all = is_all

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def honest_step(self, data: Any) -> None:
        """The next thing a well-behaved agent would say; often, so that plays get somewhere."""
        name = data.draw(st.sampled_from(sorted(self.live)))
        run = self.live[name]
        member = self.gang.members[name]
        if member.state == states.LAUNCHED:
            self.hear(events.MemberReady(name, run, f"h{run}", (run,)))
        elif member.state == states.READY and data.draw(st.booleans()):
            self.hear(events.MemberStarted(name, run, 42))
        elif member.state == states.READY:
            self.hear(events.MemberReady(name, run, f"h{run}", (run,)))
        else:
            self.hear(events.MemberExited(name, run, data.draw(exits)))

    @rule()
    def everything_goes_well(self) -> None:
        """From wherever it is to a running gang, if it can get there."""
        self.hear(events.Prepared())
        self.placed(frozenset(), True, False)
        for event, extra in ((events.MemberReady, ("h", (1,))), (events.MemberStarted, ())):
            for name, run in list(self.live.items()):
                self.hear(event(name, run, *extra))

    @precondition(lambda self: self.gang.state == states.RUNNING and self.live)
    @rule(data=st.data(), code=st.sampled_from([0, 1, 3]))
    def one_ends(self, data: Any, code: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.live)))
        cause = "user_error" if code else "success"
        exit = Exit(code=code, cause=cause, ended=data.draw(st.sampled_from([5.0, 6.0])))
        self.hear(events.MemberExited(name, self.live[name], exit.to_json()))

    @precondition(lambda self: self.gang.state in (states.RESTARTING, states.STOPPING))
    @rule()
    def all_that_were_told_to_end_do(self) -> None:
        for name, run in list(self.live.items()):
            if self.gang.members[name].state == states.ENDING:
                self.hear(events.MemberExited(name, run, Exit(code=None, signal=15).to_json()))

    @rule(name=names, run=st.integers(0, 4), kind=st.integers(0, 4), exit=exits)
    def anything_about_a_member(self, name: str, run: int, kind: int, exit: dict[str, Any]) -> None:
        made: tuple[Event, ...] = (
            events.MemberReady(name, run, "h", (1,)),
            events.MemberStarted(name, run, 1),
            events.MemberExited(name, run, exit),
            events.MemberLost(name, run, "gone"),
            events.MemberEvicted(name, run, "taken"),
        )
        self.hear(made[kind])

    @rule(grace=st.sampled_from([None, 0.0, 3.0, 90.0]), really=st.integers(0, 3))
    def preempted(self, grace: float | None, really: int) -> None:
        if not really:
            self.hear(events.PreemptRequested("", grace))
            if self.gang.state == states.RESTARTING:
                assert self.gang.retry_at == self.now, "a preempted job waits for nothing"

    @rule(some=st.frozensets(names), everybody=st.booleans())
    def resized_to(self, some: frozenset[str], everybody: bool) -> None:
        plan = [f"{r.name}-{i}" for r in self.plan.roles for i in range(r.replicas)]
        used, leaves = self.gang.retries_used, self.gang.leaves
        self.hear(events.ResizeRequested(tuple(plan if everybody else sorted(some))))
        if self.gang.state == states.RESTARTING and not leaves:
            self.resized.add(self.gang.attempt + 1)
        assert self.gang.retries_used == used

    @rule(grace=st.sampled_from([None, 0.0, 3.0, 90.0]), really=st.integers(0, 3))
    def stopped(self, grace: float | None, really: int) -> None:
        if not really:
            self.hear(events.StopRequested("alice", grace))

    def teardown(self) -> None:
        if not hasattr(self, "gang"):
            return
        again = Gang.replay(self.plan, self.journal, prepared=self.prepared)
        assert (again.state, again.verdict, again.members) == (
            self.gang.state, self.gang.verdict, self.gang.members,
        )  # fmt: skip
        assert (again.wake_at, again.attempt, again.world, again.retries_used) == (
            self.gang.wake_at, self.gang.attempt, self.gang.world, self.gang.retries_used,
        )  # fmt: skip
        # Whatever went before: asked to stop, and its members ended, it is over.
        self.hear(events.StopRequested("alice"))
        for name, run in list(self.live.items()):
            self.hear(events.MemberExited(name, run, Exit(code=0).to_json()))
        assert self.gang.is_terminal
        assert self.finished == 1


AnyShell.TestCase.settings = settings(
    max_examples=300, stateful_step_count=40, deadline=None, derandomize=True
)
test_gang_keeps_its_promises = AnyShell.TestCase
