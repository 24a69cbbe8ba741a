"""What must hold of every decision, whatever made it. Each check raises AssertionError in words.

Keeps its own books (`ledger`): from the events, and with nothing of what decided.
"""

from collections import Counter

from dromon.sched.asks import Placement, RoleAsk, Share
from dromon.sched.decisions import Decision, Grow, Preempt, Refuse, Shrink, Start
from dromon.sched.rules import Reservation
from reference.ledger import Ledger, Page
from reference.play import QUEUED, RUNNING, Play
from reference.room import empty, less, milli, share_on
from reference.slow import STOPPING, Amounts, Job, amounts, over


class Witness:
    def __init__(self, play: Play, ledger: Ledger) -> None:
        self.play, self.ledger = play, ledger
        # By the decisions that are being checked:
        self.told_to_go: set[str] = set()
        self.leaving: dict[str, tuple[str, ...]] = {}

    def check(self, decisions: tuple[Decision, ...]) -> None:
        """Before they are carried out."""
        if not decisions:
            return
        self.nothing_is_decided_twice(decisions)
        self.caps_hold(decisions)
        for decision in decisions:
            job = self.play.jobs[decision.job]
            match decision:
                case Start():
                    assert job.state == QUEUED, f"{decision.job} is not waiting"
                    self.gang_is_whole(decision)
                    self.shares_are_what_was_asked(decision, {})
                case Grow():
                    assert job.state == RUNNING, f"{decision.job} does not run"
                    assert job.told.elastic
                    self.shares_are_what_was_asked(decision, job.placement)
                case Preempt():
                    self.may_be_sent_away(decision)
                case Shrink():
                    self.stays_at_min(decision)
                case Refuse():
                    assert job.state == QUEUED, f"{decision.job} is not waiting"
        self.nothing_is_given_twice(decisions)
        self.what_is_reserved_stays_free(decisions)

    def nothing_is_decided_twice(self, decisions: tuple[Decision, ...]) -> None:
        kinds = Counter((d.job, isinstance(d, Start | Grow)) for d in decisions)
        assert set(kinds.values()) <= {1}, f"twice: {kinds}"

    def gang_is_whole(self, start: Start) -> None:
        counts = Counter(m.rpartition("-")[0] for m in start.placement)
        ask = self.play.jobs[start.job].told.ask
        for role in ask:
            assert role.min <= counts[role.role] <= role.replicas, f"half a gang: {start}"
            names = set(role.members(0, counts[role.role]))
            assert names <= set(start.placement), f"a gap among members: {start}"
        assert set(counts) <= {role.role for role in ask}, f"a role nobody asked for: {start}"

    def shares_are_what_was_asked(self, decision: Start | Grow, there: dict[str, Share]) -> None:
        ask = self.play.jobs[decision.job].told.ask
        for member, share in decision.placement.items():
            assert member not in there, f"{member} is there already"
            role = next(r for r in ask if r.role == member.rpartition("-")[0])
            self.share_is_right(role, share)
        for role in ask:
            if role.spread == "node":
                everybody = {**there, **decision.placement}
                nodes = [s.node for m, s in everybody.items() if m.rpartition("-")[0] == role.role]
                assert len(set(nodes)) == len(nodes), f"not apart: {decision}"

    def share_is_right(self, role: RoleAsk, share: Share) -> None:
        assert share.node in self.play.nodes, f"{share.node} is not there"
        assert share.node not in self.ledger.drained, f"{share.node} is drained"
        node = self.play.nodes[share.node]
        assert share_on(role, empty({node.name: node})[node.name]) is not None, (
            "the node is not of that kind"
        )
        assert (share.cpus, share.memory) == (role.cpus, role.memory)
        assert len(share.gpus) * milli(share.part) == milli(role.gpus), f"{role} got {share}"
        kinds = {g.id: g.kind for g in node.gpus}
        assert all(role.gpu_kind in (None, kinds[id]) for id in share.gpus), f"{role}: {share}"
        outside = {device for name, device in self.ledger.outside if name == share.node}
        assert not outside & set(share.gpus), "a GPU that somebody outside has"

    def may_be_sent_away(self, decision: Preempt) -> None:
        victim, job = self.play.jobs[decision.job], self.play.jobs[decision.for_job]
        assert victim.state == RUNNING, f"{decision.job} does not run"
        assert job.state == QUEUED, f"{decision.for_job} does not wait"
        known = self.ledger.jobs[decision.for_job]
        assert decision.job not in known.gave_way_to, "back and forth"
        if victim.told.queue == job.told.queue:
            assert victim.told.preemptible, f"{decision}: not preemptible"
            assert victim.told.priority < job.told.priority, f"{decision}: not of a lower class"
            ran = self.play.now - victim.since
            assert ran >= self.play.rules.min_run_time, f"{decision}: ran only {ran}"
        else:
            mine = {q.name for q in self.ledger.path(job.told.queue)}
            theirs = [q.name for q in self.ledger.path(victim.told.queue) if q.name not in mine]
            usage = self.books.usage(theirs[-1])
            part = self.books.deserved[theirs[-1]]
            assert any(usage[r] > part[r] for r in part), f"{decision}: nothing borrowed"

    def stays_at_min(self, decision: Shrink) -> None:
        job = self.play.jobs[decision.job]
        assert job.state == RUNNING, f"{decision.job} does not run"
        assert not set(decision.members) & set(job.leaving), "asked to go twice"
        left = Counter(m.rpartition("-")[0] for m in job.placement if m not in decision.members)
        assert all(left[r.role] >= r.min for r in job.told.ask), f"{decision}: below min"

    def caps_hold(self, decisions: tuple[Decision, ...]) -> None:
        """One after the other: none of the rules that could hold it does."""
        books = self.books = Page(self.ledger, self.play.now)
        for decision in decisions:
            if isinstance(decision, Start | Grow):
                job = self.ledger.jobs[decision.job]
                more = amounts(job.ask, decision.placement)
                is_new = isinstance(decision, Start)
                cap = books.cap(job) if is_new else books.holds_back(job, more)
                assert cap is None, f"{decision} over the {cap}"
                books.held[job.id] = books.held.get(job.id, Amounts()) + more
        for decision in (d for d in decisions if isinstance(d, Start | Grow)):
            job = self.ledger.jobs[decision.job]
            more = amounts(job.ask, decision.placement)
            for queue in self.ledger.path(job.queue):
                is_over = over(books.usage(queue.name), queue.limit, more)
                assert not is_over, f"{job.id} came over the limit of {queue.name}"
                is_over = over(books.usage(queue.name, job.user), queue.user_limit, more)
                assert not is_over, f"{job.id} came over the user_limit of {queue.name}"

    def what_is_reserved_stays_free(self, decisions: tuple[Decision, ...]) -> None:
        """Whoever starts leaves others what is reserved for them, for as long as it may run. What
        an owner who waits is planned to have counts as used; such reservations are left out."""
        begun = {d.job: d.placement for d in decisions if isinstance(d, Start | Grow)}
        self.told_to_go = {d.job for d in decisions if isinstance(d, Preempt)}
        self.leaving = {d.job: d.members for d in decisions if isinstance(d, Shrink)}
        waiting = [job for job in self.ledger.waiting() if job.id not in begun]
        for id, placement in begun.items():
            job, now = self.ledger.jobs[id], self.play.now
            end = self.end_of(job)
            others = [r for r in self.ledger.reservations(now)
                      if not any(self.ledger.is_for(r, j) for j in (job, *waiting))]  # fmt: skip
            for time in {max(r.start, now) for r in others if r.start < end}:
                active = [r for r in others if r.start <= time < r.end]
                free, owed = self.gpus_free(time, begun), 0
                for r in active:
                    owed += max(0, r.gpus - self.gpus_used(r, time, begun))
                if any(share.gpus for share in placement.values()):
                    assert free >= owed, f"{id} is where {active} will be at {time}"

    def end_of(self, job: Job) -> float:
        """If it runs, or starts now."""
        if job.id in self.told_to_go:
            return self.play.now + job.stop_grace
        if job.state == STOPPING:
            return job.stop_at
        return (self.play.now if job.state == QUEUED else job.since) + self.ledger.duration(job)

    def shares_at(self, time: float, begun: dict[str, Placement]) -> list[tuple[Job, Share]]:
        """Who has what then. What should have ended by now is about to."""
        is_now = time == self.play.now
        found = [
            (self.ledger.jobs[id], share) for id, placement in begun.items()
            if is_now or self.end_of(self.ledger.jobs[id]) > time
            for share in placement.values()
        ]  # fmt: skip
        for id, seen in self.play.jobs.items():
            job = self.ledger.jobs[id]
            if is_now or self.end_of(job) > time:
                gone = (*seen.leaving, *self.leaving.get(id, ())) if time > self.play.now else ()
                found += [(job, s) for m, s in seen.placement.items() if m not in gone]
        return found

    def gpus_free(self, time: float, begun: dict[str, Placement]) -> int:
        taken = {(s.node, gpu) for _, s in self.shares_at(time, begun) for gpu in s.gpus}
        return sum(
            (node.name, gpu.id) not in taken | self.ledger.outside
            for node in self.play.nodes.values() if node.name not in self.ledger.drained
            for gpu in node.gpus
        )  # fmt: skip

    def gpus_used(self, r: Reservation, time: float, begun: dict[str, Placement]) -> int:
        mine = [s for job, s in self.shares_at(time, begun) if self.ledger.is_for(r, job)]
        return sum(len(share.gpus) for share in mine if share.node in self.play.nodes)

    def cap(self, id: str, decisions: tuple[Decision, ...] = ()) -> str | None:
        """With those counted for whom room is being made, or would be by these, and who start."""
        page, job = Page(self.ledger, self.play.now), self.ledger.jobs[id]
        coming = {j.id for j in self.ledger.waiting() if j.is_favoured}
        coming |= {d.for_job for d in decisions if isinstance(d, Preempt | Shrink)}
        coming |= {d.job for d in decisions if isinstance(d, Start)}
        cap = page.cap(job)
        page.held |= {other: self.ledger.jobs[other].demand for other in coming - {id}}
        return cap or page.cap(job)

    def path(self, id: str) -> list[str]:
        return [q.name for q in self.ledger.path(self.play.jobs[id].told.queue)]

    def nothing_is_given_twice(self, decisions: tuple[Decision, ...]) -> None:
        shares = [s for job in self.play.jobs.values() for s in job.placement.values()]
        for decision in decisions:
            if isinstance(decision, Start | Grow):
                shares += decision.placement.values()
        for name, left in less(empty(self.play.nodes), shares).items():
            assert left.cpus >= 0, f"{name} has {left.cpus / 1000} CPUs left"
            assert left.memory >= 0, f"{name} has {left.memory} of memory left"
            assert all(of >= 0 for of in left.gpus.values()), f"{name}: {left.gpus} left"
            for device, of in left.gpus.items():
                parts = [s.part for s in shares if s.node == name and device in s.gpus]
                assert len(parts) == 1 or sum(map(milli, parts)) == 1000 - of
