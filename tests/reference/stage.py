"""A play on a real cluster: every decision is checked, then carried out."""

from typing import Any

from dromon.sched import events
from dromon.sched.cluster import Cluster
from dromon.sched.decide import decide
from dromon.sched.decisions import Decision
from reference.checks import Witness
from reference.ledger import Ledger
from reference.play import STOPPING, Play
from reference.scenarios import Step


class Stage(Play):
    def __init__(self) -> None:
        super().__init__()
        self.cluster, self.ledger = Cluster(), Ledger()
        self.witness = Witness(self, self.ledger)
        self.log: list[Any] = []

    def tell(self, event: Any) -> None:
        self.log.append(event)
        self.note(event)
        self.ledger.apply(event)
        self.cluster.apply(event)

    def decide(self, later: float = 0.0) -> tuple[Decision, ...]:
        return decide(self.cluster, self.now + later, 0)

    def go(self) -> tuple[Decision, ...]:
        decisions = self.decide()
        self.witness.check(decisions)
        for decision in decisions:
            self.tell(self.of_decision(decision))
        return decisions

    def happen(self, step: Step) -> None:
        for event in self.of_step(step):
            self.tell(event)

    def take(self, step: Step) -> tuple[Decision, ...]:
        self.happen(step)
        return self.go()

    def rest(self, most: int = 6) -> None:
        """Until there is nothing to do for now."""
        for _ in range(most):
            if not self.go():
                return
        raise AssertionError("nothing happens, and it does not come to rest")

    def let_all_go(self) -> None:
        """Those that were told to stop have stopped."""
        for id, job in list(self.jobs.items()):
            if job.state == STOPPING:
                self.tell(events.JobReleased(id, self.now))
            elif job.leaving:
                self.tell(events.JobShrunk(id, job.leaving, self.now))

    @property
    def is_still(self) -> bool:
        """Nobody is on the way out."""
        return not any(job.state == STOPPING or job.leaving for job in self.jobs.values())
