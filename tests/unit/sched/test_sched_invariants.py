"""Whatever happens to a cluster: what must always hold."""

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dromon.sched import events
from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.cluster import QUEUED, RUNNING, Cluster, Job
from dromon.sched.decide import Grow, Preempt, Refuse, Shrink, Start, decide
from dromon.sched.explain import explain
from dromon.sched.placement import can_ever_fit

NODES = ("n0", "n1", "n2")
KINDS = ("t4", "a100")


@st.composite
def asks(draw: Any, role: str) -> RoleAsk:
    replicas = draw(st.integers(1, 3))
    return RoleAsk(
        role,
        replicas,
        draw(st.integers(0 if role == "b" else 1, replicas)),
        cpus=draw(st.sampled_from([0, 0.1, 0.333, 1, 2, 3])),
        memory=draw(st.sampled_from([None, 1, 5, 8])),
        gpus=draw(st.sampled_from([0, 0, 1, 2])),
        gpu_kind=draw(st.sampled_from([None, None, *KINDS])),
        node_label=draw(st.sampled_from([None, None, "fast"])),
        spread=draw(st.sampled_from(["none", "node"])),
    )


class AnyCluster(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.cluster = Cluster()
        self.seq = 0
        self.capacity: dict[str, events.NodeJoined] = {}
        self.join("n0", 4, 10, ("t4", "a100"), True)

    @rule(
        name=st.sampled_from(NODES), cpus=st.sampled_from([2, 4, 4.5]),
        memory=st.sampled_from([8, 10]), kinds=st.sampled_from([(), ("t4",), ("t4", "a100")]),
        fast=st.booleans(),
    )  # fmt: skip
    def join(self, name: str, cpus: float, memory: int, kinds: Any, fast: bool) -> None:
        if any(name == s.node for j in self.cluster.running() for s in j.placement.values()):
            return  # a node that shrinks under its jobs is another story
        gpus = tuple(Gpu(f"{i}", kind) for i, kind in enumerate(kinds))
        labels = frozenset({"fast"} if fast else ())
        self.capacity[name] = events.NodeJoined(name, cpus, memory, gpus, labels)
        self.cluster.apply(self.capacity[name])

    @rule(name=st.sampled_from(NODES), really=st.integers(0, 3))
    def leave(self, name: str, really: int) -> None:
        if not really:
            self.cluster.apply(events.NodeLeft(name))

    @rule(
        ask=st.tuples(asks("a")) | st.tuples(asks("a"), asks("b")),
        priority=st.integers(-1, 2), preemptible=st.booleans(),
    )  # fmt: skip
    def submit(self, ask: tuple[RoleAsk, ...], priority: int, preemptible: bool) -> None:
        if can_ever_fit(self.cluster, ask) is None:
            self.seq += 1
            self.cluster.apply(
                events.JobSubmitted(f"j{self.seq}", self.seq, 0.0, ask, priority, preemptible)
            )

    @rule(
        node=st.sampled_from(NODES), device=st.sampled_from(["0", "1"]), held=st.booleans()
    )  # fmt: skip
    def outsider(self, node: str, device: str, held: bool) -> None:
        event = events.GpuHeld(node, device, "bob") if held else events.GpuFreed(node, device)
        self.cluster.apply(event)

    @precondition(lambda self: self.cluster.jobs)
    @rule(data=st.data(), kind=st.sampled_from([events.JobEnded, events.JobReleased]))
    def somebody_goes(self, data: Any, kind: Any) -> None:
        self.cluster.apply(kind(data.draw(st.sampled_from(sorted(self.cluster.jobs)))))

    @rule(seed=st.integers(0, 3))
    def carry_out(self, seed: int) -> None:
        before = dict(self.cluster.jobs)
        was_queued = {id for id, job in before.items() if job.state == QUEUED}
        decisions = decide(self.cluster, 0.0, seed)
        kinds = Counter((type(d), d.job) for d in decisions)
        assert set(kinds.values()) <= {1}, "the same decided twice"
        for decision in decisions:
            job = before[decision.job]
            if isinstance(decision, Start):
                assert job.state == QUEUED
                counts = Counter(m.rpartition("-")[0] for m in decision.placement)
                assert all(r.min <= counts[r.role] <= r.replicas for r in job.ask), "half a gang"
                self.check_shares(job.ask, decision)
                self.cluster.apply(events.JobStarted(job.id, decision.placement))
            elif isinstance(decision, Preempt):
                assert job.state == RUNNING
                assert job.preemptible
                assert job.priority < before[decision.for_job].priority
                self.cluster.apply(events.JobStopping(job.id, 0.0, decision.for_job))
            elif isinstance(decision, Grow):
                self.cluster.apply(events.JobGrown(job.id, decision.placement))
            elif isinstance(decision, Shrink):
                self.cluster.apply(events.JobShrunk(job.id, decision.members))
            else:
                assert isinstance(decision, Refuse)
                self.cluster.apply(events.JobEnded(job.id))
        self.check_order(before, was_queued, decisions)

    def check_shares(self, ask: tuple[RoleAsk, ...], start: Start) -> None:
        for role in ask:
            shares = [s for m, s in start.placement.items() if m.rpartition("-")[0] == role.role]
            for share in shares:
                kinds = {g.id: g.kind for g in self.capacity[share.node].gpus}
                assert (share.cpus, share.memory) == (role.cpus, role.memory)
                assert len(share.gpus) == role.gpus
                assert role.gpu_kind is None or {kinds[g] for g in share.gpus} <= {role.gpu_kind}
                label = role.node_label
                assert label is None or label in self.capacity[share.node].labels
            if role.spread == "node":
                assert len({s.node for s in shares}) == len(shares)

    def check_order(self, before: Any, was_queued: set[str], decisions: Any) -> None:
        """Who passed a waiting job cannot make it wait longer."""
        if not self.cluster.nodes:
            return
        started = {d.job for d in decisions if isinstance(d, Start)}
        refused = {d.job for d in decisions if isinstance(d, Refuse)}
        queue = sorted((before[id] for id in was_queued), key=lambda j: (-j.priority, j.seq, j.id))
        for n, job in enumerate(queue):
            if job.id in started or job.id in refused:
                continue
            behind = [j for j in queue[n + 1 :] if j.id in started]
            assert all(len(j.uses & job.uses) < len(job.uses) for j in behind)
            # Were all others gone but those that passed it, it would run.
            gone = {j.id for j in self.cluster.running()} - {j.id for j in behind}
            held = any(node.held for node in self.cluster.nodes.values())
            assert held or self.would_start(job.id, gone)
            break  # what holds for the first that is blocked need not for the next

    def would_start(self, id: str, gone: Any) -> bool:
        """On a cluster where only those that hold something, less some, and this job are."""
        other = Cluster()
        for name in self.cluster.nodes:
            other.apply(self.capacity[name])
        for node in self.cluster.nodes.values():
            for device, by in node.held.items():
                other.apply(events.GpuHeld(node.name, device, by))
        for job in self.cluster.running():
            if job.id not in gone and job.id != id:
                other.apply(as_submitted(job))
                other.apply(events.JobStarted(job.id, job.placement))
        other.apply(as_submitted(self.cluster.jobs[id]))
        return any(isinstance(d, Start) and d.job == id for d in decide(other, 0.0, 0))

    def what_is_known(self) -> Any:
        """All that decisions rest on, without what is only kept to find it faster."""
        self.cluster.review()
        nodes = {n.name: (n.free, dict(n.parts), dict(n.held), set(n.jobs), n.is_open)
                 for n in self.cluster.nodes.values()}  # fmt: skip
        jobs = {
            j.id: (j.state, dict(j.placement), j.start, j.started, j.end, j.duration, j.executed)
            for j in self.cluster.jobs.values()
        }
        queues = {
            q.name: (some(q.usage), q.share, q.running, q.queued, dict(q.deserved), dict(q.lower),
                     dict(q.levels),
                     {m.name: (some(m.usage), m.share, m.queued) for m in q.members.values()})
            for q in self.cluster.accounts.tree.values()
        }  # fmt: skip
        lines = {key: [job.id for job in line.jobs] for key, line in self.cluster.lines.items()}
        keys = {(*key[:3], key[3].number): keys for key, keys in lines.items()}
        return nodes, jobs, queues, keys

    @invariant()
    def nothing_is_given_twice(self) -> None:
        given: dict[str, list[Any]] = {name: [] for name in self.cluster.nodes}
        for job in self.cluster.running():
            for share in job.placement.values():
                given.setdefault(share.node, []).append(share)
        for name, node in self.cluster.nodes.items():
            cpus = sum(round(s.cpus * 1000) for s in given[name])
            memory = sum(s.memory or 0 for s in given[name])
            gpus = [g for s in given[name] for g in s.gpus]
            assert node.free.cpus == node.total.cpus - cpus
            assert node.free.memory == node.total.memory - memory
            assert len(gpus) == len(set(gpus)), "a GPU given twice"
            taken = set(gpus) | node.held.keys()
            assert [g for g in node.total.gpus if g.id not in taken] == list(node.free.gpus)
            assert node.free.cpus >= 0
            assert node.free.memory >= 0

    @invariant()
    def deciding_and_explaining_change_nothing_and_agree(self) -> None:
        before = self.what_is_known()
        decisions = decide(self.cluster, 0.0, 0)
        starting = {d.job for d in decisions if isinstance(d, Start)}
        refused = {d.job for d in decisions if isinstance(d, Refuse)}
        asked = sorted(self.cluster.jobs)
        for id in {*asked[:1], *asked[-1:]}:  # each costs a few decisions
            job = self.cluster.jobs[id]
            why = explain(self.cluster, id, 0.0)
            assert why.sentence
            assert (why.reason == "about to start") == (id in starting)
            assert (why.reason == "impossible") == (id in refused)
            assert (why.position is None) == (job.state != QUEUED or id in refused)
        assert self.what_is_known() == before

    @invariant()
    def victims_make_enough_room(self) -> None:
        decisions = decide(self.cluster, 0.0, 0)
        victims = [d for d in decisions if isinstance(d, Preempt)]
        if victims:
            gone = {*(v.job for v in victims), *self.cluster.stopping}
            assert self.would_start(victims[0].for_job, gone)

    @invariant()
    def positions_count_the_queue(self) -> None:
        queued = sorted(
            (j for j in self.cluster.waiting()), key=lambda j: (-j.priority, j.seq, j.id)
        )
        positions = [self.cluster.position(j.id) for j in queued]
        assert positions == list(range(1, len(queued) + 1))


def as_submitted(job: Job) -> events.JobSubmitted:
    return events.JobSubmitted(
        job.id, job.seq, job.submitted, job.ask, job.priority, job.preemptible, job.user,
        job.queue, job.max_duration, job.stop_grace, job.checkpointed, job.elastic,
    )  # fmt: skip


def some(usage: dict[str, int]) -> dict[str, int]:
    return {resource: amount for resource, amount in usage.items() if amount}


AnyCluster.TestCase.settings = settings(
    max_examples=50, stateful_step_count=30, deadline=None, derandomize=True
)
test_cluster_keeps_its_promises = AnyCluster.TestCase
