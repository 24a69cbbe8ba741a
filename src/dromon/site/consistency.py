"""What spans several keys of a site file: the tree, sums, who is named where."""

from collections.abc import Iterator

from dromon.site import shares
from dromon.site.model import DEFAULT, ROOT, Amounts, Queue, Site, known, promised
from dromon.spec.path import Path
from dromon.spec.sentences import Wrong
from dromon.spec.words import choice, nearest
from dromon.units import format_size


def rules(site: Site) -> Iterator[Wrong]:
    broken = list(_tree(site))
    yield from broken
    yield from _within_a_queue(site)
    yield from _classes(site)
    yield from _reservations(site)
    if not broken:  # sums over a broken tree mean nothing
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
        if queue.weight is not None and queue.deserved is not None:
            yield Wrong((*at, "weight"), "cannot stand beside deserved", "keep one of them",
                        at_key=True)  # fmt: skip
        for word in ("deserved", "guarantee"):
            yield from _over_the_limit(at, word, getattr(queue, word), queue.limit)
        owed, limit = promised(queue.deserved), known(queue.limit)
        for key, amount in promised(queue.guarantee).items():
            # Without deserved it is owed a part by its weight, which the total decides.
            if queue.deserved is None or limit.get(key, amount) < amount:
                continue
            if amount > owed.get(key, 0):
                whole = f" of {told(key, owed[key])}" if key in owed else ""
                text = f"{told(key, amount)} is more than what it deserves{whole}"
                yield Wrong((*at, "guarantee", *_keys(key, queue.guarantee)), text,
                            "what is guaranteed is a part of what is deserved",
                            about=((*at, "deserved"),))  # fmt: skip


def _over_the_limit(
    at: Path, word: str, amounts: Amounts | None, limit: Amounts | None
) -> Iterator[Wrong]:
    most = known(limit)
    for key, amount in known(amounts).items():
        if amount > most.get(key, amount):
            text = f"{told(key, amount)} is more than its limit of {told(key, most[key])}"
            yield Wrong((*at, word, *_keys(key, amounts)), text, "lower it, or raise limit",
                        about=((*at, "limit"),))  # fmt: skip


def _keys(resource: str, amounts: Amounts | None) -> Path:
    """Where a resource's amount stands: "gpus.a100" lies one level deeper."""
    head, _, kind = resource.partition(".")
    if kind and amounts is not None and isinstance(amounts.gpus, dict) and kind in amounts.gpus:
        return (head, kind)
    return (head,)


def _sums(site: Site) -> Iterator[Wrong]:
    """What the queues below one are promised fits into what it is promised itself."""
    sums = {"deserved": shares.deserved(site), "guarantee": shares.guarantees(site)}
    for above in (ROOT, *site.queues):
        parent = site.queues.get(above)
        for word, amounts in sums.items():
            given: Amounts | None = site.total if parent is None else getattr(parent, word)
            for key, have in promised(given).items():
                asked = sum(amounts[child].get(key, 0) for child in site.children(above))
                if asked <= have:
                    continue
                whose = f"the queues below {above}" if parent else "all queues"
                start = ("queues", above, word) if parent else ("total",)
                verb = "deserve" if word == "deserved" else "are guaranteed"
                text = f"{whose} {verb} {told(key, asked)}, this is only {told(key, have)}"
                yield Wrong((*start, *_keys(key, given)), text, "lower theirs or raise this")
        for name, queue in site.children(above).items():
            yield from _limits(site, name, queue)


def _limits(site: Site, name: str, queue: Queue) -> Iterator[Wrong]:
    for key, amount in known(queue.limit).items():
        most, whose = _limit_above(site, name, key)
        if amount > most:
            text = f"{told(key, amount)} is more than {whose}, {told(key, most)}"
            yield Wrong(("queues", name, "limit", *_keys(key, queue.limit)), text, "lower it")


def _limit_above(site: Site, name: str, key: str) -> tuple[float, str]:
    at = site.queues[name].parent
    while at is not None and at in site.queues:
        limit = known(site.queues[at].limit)
        if key in limit:
            return limit[key], f"the limit of {at}"
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


def _reservations(site: Site) -> Iterator[Wrong]:
    for name, each in site.reservations.items():
        at: Path = ("reservations", name)
        if each.end <= each.start:
            yield Wrong((*at, "end"), "is not after start", about=((*at, "start"),))
        if (each.user is None) == (each.queue is None):
            text = "is for a user or for a queue, not both" if each.user else "for whom is it?"
            yield Wrong(at, text, "write user: NAME or queue: NAME", at_key=True)
        elif each.queue is not None and each.queue not in site.queues:
            hint = choice(each.queue, site.queues) if site.queues else "add it under queues"
            yield Wrong((*at, "queue"), f"there is no queue {each.queue!r}", hint)
        if isinstance(each.gpus, dict) and len(each.gpus) > 1:
            yield Wrong((*at, "gpus"), "is of one kind", "make a reservation for each kind")


def told(key: str, amount: float) -> str:
    """ "8 GPUs", "2 a100 GPUs", "1.0 GiB of memory"."""
    if key == "memory":
        return f"{format_size(amount)} of memory"
    head, _, kind = key.partition(".")
    word = "GPU" if head == "gpus" else "CPU"
    return f"{amount:g} {kind + ' ' if kind else ''}{word}{'' if amount == 1 else 's'}"
