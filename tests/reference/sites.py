"""Full clusters of many kinds, drawn by chance."""

from collections.abc import Iterator
from random import Random

from dromon.sched import events
from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.cluster import Cluster
from dromon.sched.rules import QueueRule, Rules

DEVICES = 8


class Site:
    """A full cluster of some kind: small or larger, with or without trees, caps, classes, kinds."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.nodes = chance.choice((4, 16, 40, 100))
        self.queues, self.users = chance.choice((1, 3, 8)), chance.choice((1, 4))
        self.classes = chance.choice(((0,), (0,), (0, 0, 0, 5)))
        self.has_kinds, self.has_cpus = chance.random() < 0.2, chance.random() < 0.2
        self.sizes = chance.choice(
            ((1, 1, 1, 1, 1, 2, 4, 8, 16), (*[1] * 30, 2, 2, 4, 4, 8, 8, 16), (2, 3, 4), (1, 8))
        )
        wide = tuple(1.5**n for n in range(24))
        self.times = chance.choice(((1.0, 3.0, 8.0, 20.0, 50.0, 137.0), (5.0, 5.0, 1000.0), wide))
        whole = self.nodes * DEVICES
        most = whole / chance.choice((1, 2, 4, 8))
        is_tree = chance.random() < 0.5
        rules = tuple(
            QueueRule(f"q{q}", parent=f"p{q % 3}" if is_tree else "root", limit={"gpus": most},
                      user_limit={"gpus": most / chance.choice((1, 2, 4, 8))}, weight=1.0 + q % 2)
            for q in range(self.queues)
        )  # fmt: skip
        self.rules = Rules(queues=rules, policy="drf")
        self.cluster = Cluster(self.rules)
        for event in self.joined():
            self.cluster.apply(event)
        for number in range(self.nodes * chance.choice((3, 16))):
            self.cluster.apply(self.job(number, 0.0))
        too_large = (RoleAsk("worker", 1, 1, gpus=DEVICES + 1),)
        self.cluster.apply(events.JobSubmitted("never", 9999, 0.0, too_large, queue="q0",
                                               max_duration=1.0))  # fmt: skip

    def joined(self) -> Iterator[events.NodeJoined]:
        for node in range(self.nodes):
            kind = f"kind{node % 2}" if self.has_kinds else ""
            devices = tuple(Gpu(str(i), kind) for i in range(DEVICES))
            label = frozenset({"fast"} if node % 2 else ())
            yield events.NodeJoined(f"n{node}", 16, 2**40, devices, label)

    def job(self, number: int, now: float) -> events.JobSubmitted:
        chance = self.chance
        gpus = chance.choice(self.sizes)
        members, each = (1, gpus) if gpus <= DEVICES else (gpus // DEVICES, DEVICES)
        ask = RoleAsk(
            "worker", members, members, gpus=each,
            gpu_kind=chance.choice((None, "kind0", "kind1")) if self.has_kinds else None,
            node_label=chance.choice((None, None, "fast")) if self.has_cpus else None,
            cpus=chance.choice((0, 0, 1, 4)) if self.has_cpus else 0,
        )  # fmt: skip
        return events.JobSubmitted(
            f"j{number}", number, now, (ask,), chance.choice(self.classes), True,
            f"u{chance.randrange(self.users)}", f"q{chance.randrange(self.queues)}",
            max_duration=chance.choice(self.times) * chance.choice((1.0, 1.0, 1.1)),
        )  # fmt: skip
