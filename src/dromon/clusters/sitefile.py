"""The site file's text -> a checked `Site`, or every problem at once, each with its place."""

from collections.abc import Iterator, Mapping
from typing import Any

from dromon.clusters import shares
from dromon.clusters.checking import checked
from dromon.clusters.site import DEFAULT, ROOT, Site, known
from dromon.errors import JobFileError, Problem
from dromon.spec.document import read
from dromon.spec.path import Path
from dromon.spec.sentences import Wrong
from dromon.spec.words import nearest, told
from dromon.units import format_size


def load_site(text: str | bytes, file: str) -> Site:
    """Raises JobFileError with every problem in it."""
    document = read(text, file)
    data = document.data
    if not isinstance(data, dict):
        found = "is empty" if data is None else f"expected keys and values, got {told(data)}"
        hint = "write for example queues: {research: {share: {gpus: 8}}}"
        raise JobFileError([Problem(file, 1, 1, "", found, hint)], hint="")
    return checked(Site, _long_form(data), document, rules)


def _long_form(data: Mapping[str, Any]) -> dict[str, Any]:
    """`normal: 100` as `normal: {value: 100}`, and `research:` with nothing as an empty mapping."""
    given = dict(data)
    if isinstance(classes := given.get("priorities"), dict):
        given["priorities"] = {
            name: {"value": value} if isinstance(value, int) else value
            for name, value in classes.items()
        }
    if isinstance(queues := given.get("queues"), dict):
        given["queues"] = {name: {} if q is None else q for name, q in queues.items()}
    return {key: value for key, value in given.items() if value is not None}


# --- what spans several keys


def rules(site: Site) -> Iterator[Wrong]:
    broken = list(_tree(site))
    yield from broken
    yield from _within_a_queue(site)
    yield from _classes(site)
    if not broken:  # sums over a broken tree mean nothing
        yield from _weights(site)
        yield from _sums(site)


def _tree(site: Site) -> Iterator[Wrong]:
    for name, queue in site.queues.items():
        at: Path = ("queues", name)
        if name == ROOT:
            yield Wrong(at, "root is the name of what all queues hang from", "choose another",
                        at_key=True)  # fmt: skip
        if queue.parent in (None, ROOT):
            continue
        if queue.parent == DEFAULT:
            yield Wrong((*at, "parent"), "default cannot have queues below it",
                        "jobs that name no queue go there, and only a queue with none below it "
                        "takes jobs")  # fmt: skip
        elif queue.parent not in site.queues:
            hint = nearest(queue.parent, site.queues) or "add it, or leave parent out"
            yield Wrong((*at, "parent"), f"there is no queue {queue.parent!r}", hint)
        elif _is_circular(site, name):
            yield Wrong((*at, "parent"), f"{name} would be above itself", "leave parent out")


def _is_circular(site: Site, name: str) -> bool:
    seen: set[str] = set()
    at: str | None = name
    while at in site.queues and at not in seen:
        seen.add(at)
        at = site.queues[at].parent
    return at == name


def _within_a_queue(site: Site) -> Iterator[Wrong]:
    for name, queue in site.queues.items():
        at: Path = ("queues", name)
        share, cap, kept = (known(x) for x in (queue.share, queue.cap, queue.guarantee))
        for key, amount in share.items():
            if amount > cap.get(key, amount):
                text = f"{_told(key, amount)} is more than its cap of {_told(key, cap[key])}"
                yield Wrong((*at, "share", key), text, "lower it, or raise cap",
                            about=((*at, "cap"),))  # fmt: skip
        for key, amount in kept.items():
            if amount > cap.get(key, amount):
                text = f"{_told(key, amount)} is more than its cap of {_told(key, cap[key])}"
                yield Wrong((*at, "guarantee", key), text, "lower it, or raise cap",
                            about=((*at, "cap"),))  # fmt: skip
            elif queue.weight is None and amount > share.get(key, 0):
                owed = f"its share of {_told(key, share[key])}" if key in share else "its share"
                yield Wrong((*at, "guarantee", key), f"{_told(key, amount)} is more than {owed}",
                            "what is kept for a queue is a part of its share",
                            about=((*at, "share"),))  # fmt: skip


def _weights(site: Site) -> Iterator[Wrong]:
    for name, queue in site.queues.items():
        at: Path = ("queues", name, "weight")
        if queue.weight is None:
            continue
        if queue.share is not None:
            yield Wrong(at, "cannot stand beside share", "keep one of them", at_key=True)
        elif not _divisible(site, name):
            yield Wrong(at, "nobody says of what this is a part",
                        "add total: {cpus: …, memory: …, gpus: …} at the top, or write share",
                        at_key=True, about=(("total",),))  # fmt: skip


def _divisible(site: Site, name: str) -> bool:
    above = site.queues[name].above
    if above == ROOT:
        return site.total is not None
    queue = site.queues[above]
    return queue.share is not None or (queue.weight is not None and _divisible(site, above))


def _sums(site: Site) -> Iterator[Wrong]:
    """What the queues below one are promised fits into what it is promised itself."""
    promised = {"share": shares.shares(site), "guarantee": shares.guarantees(site)}
    for above in (ROOT, *site.queues):
        parent = site.queues.get(above)
        for word, amounts in promised.items():
            have = known(site.total if parent is None else getattr(parent, word))
            for key, limit in have.items():
                asked = sum(amounts[child].get(key, 0) for child in site.children(above))
                if asked <= limit:
                    continue
                whose = f"of the queues below {above}" if parent else "of all queues"
                path = ("queues", above, word, key) if parent else ("total", key)
                text = f"the {word}s {whose} come to {_told(key, asked)}, this is only "
                yield Wrong(path, text + _told(key, limit), "lower theirs or raise this")
        for name, queue in site.children(above).items():
            for key, amount in known(queue.cap).items():
                limit, whose = _cap_above(site, name, key)
                if amount > limit:
                    text = f"{_told(key, amount)} is more than {whose}, {_told(key, limit)}"
                    yield Wrong(("queues", name, "cap", key), text, "lower it")


def _cap_above(site: Site, name: str, key: str) -> tuple[float, str]:
    at = site.queues[name].parent
    while at is not None and at in site.queues:
        cap = known(site.queues[at].cap)
        if key in cap:
            return cap[key], f"the cap of {at}"
        at = site.queues[at].parent
    return float("inf"), ""


def _classes(site: Site) -> Iterator[Wrong]:
    default = ""
    for name, priority in site.priorities.items():
        at: Path = ("priorities", name)
        if name.startswith("system-"):
            yield Wrong(at, "names that begin with system- are Kubernetes' own", "choose another",
                        at_key=True)  # fmt: skip
        if priority.default and default:
            yield Wrong((*at, "default"), f"{default} is the default already", "keep one")
        default = default or (name if priority.default else "")


def _told(key: str, amount: float) -> str:
    if key == "memory":
        return f"{format_size(amount)} of memory"
    return f"{amount:g} {'GPUs' if key == 'gpus' else 'CPUs'}"
