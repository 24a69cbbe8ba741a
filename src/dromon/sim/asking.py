"""A trace's jobs as the scheduler knows them: asks for the nodes there are. Equal asks are one
object, so that the scheduler tells them apart by identity and a million jobs need little room."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dromon.sched.asks import Ask, RoleAsk
from dromon.sched.events import NodeJoined
from dromon.sim.trace import TraceJob

Key = tuple[float, int, float, int | None, tuple[str, ...], str | None]


class Asks:
    """Asks for jobs of a trace on these nodes. A job of more GPUs than a node has becomes whole
    nodes and a rest."""

    def __init__(self, nodes: Sequence[NodeJoined]) -> None:
        self._largest = max((len(node.gpus) for node in nodes), default=0)
        self._known: dict[Key, Ask] = {}
        self._roles: dict[Ask, Ask] = {}

    def of(self, job: TraceJob) -> Ask:
        if job.ask:
            return self._roles.setdefault(job.ask, job.ask)
        key = (job.gpus, job.members, job.cpus, job.memory, job.kinds, job.label)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._make(job)
        return found

    def _make(self, job: TraceJob) -> Ask:
        kind = job.kinds[0] if len(job.kinds) == 1 else None
        label = any_of(job.kinds) if len(job.kinds) > 1 else job.label

        def role(name: str, count: int, gpus: float, part: float = 1.0) -> RoleAsk:
            memory = None if job.memory is None else int(job.memory * part)
            return RoleAsk(name, count, count, job.cpus * part, memory, gpus, kind, label)

        if job.members or job.gpus <= self._largest or not self._largest:
            return (role("worker", max(1, job.members), job.gpus),)
        full, rest = divmod(int(job.gpus), self._largest)
        ask: Ask = (role("worker", full, self._largest, self._largest / job.gpus),)
        return (*ask, role("rest", 1, rest, rest / job.gpus)) if rest else ask


def any_of(kinds: tuple[str, ...]) -> str:
    """The label of nodes with one of several kinds of GPUs."""
    return "|".join(kinds)


def labelled(nodes: Sequence[NodeJoined], jobs: Iterable[TraceJob]) -> list[NodeJoined]:
    """The nodes with labels for what jobs ask of several kinds: "this or that GPU"."""
    wanted = {job.kinds for job in jobs if len(job.kinds) > 1}
    if not wanted:
        return list(nodes)
    marked = []
    for node in nodes:
        has = {gpu.kind for gpu in node.gpus}
        more = {any_of(kinds) for kinds in wanted if has & set(kinds)}
        marked.append(replace(node, labels=node.labels | more))
    return marked
