"""Rules about who is evicted: configurations under which nobody ever is, the wrong one, or all in
turn. Each rule: configuration -> findings.

How Volcano decides: a job must first enter (action `enqueue`; whoever may refuse can keep it out).
`preempt` then makes room inside a queue, `reclaim` between queues. For both, plug-ins are asked
tier by tier: in a tier all must agree on a victim, the first tier with a victim decides, and a tier
in which one plug-in names nobody is passed over.
"""

from collections.abc import Callable, Iterator

from dromon.clusters.conf import Conf, Plugin
from dromon.clusters.findings import ERROR, WARNING, Finding
from dromon.clusters.vocabulary import JUDGES_PREEMPT, JUDGES_RECLAIM, QUEUE_PLUGINS

PREEMPT, RECLAIM = ("preempt", "gangpreempt"), ("reclaim", "gangreclaim")


def has(conf: Conf, actions: tuple[str, ...]) -> str:
    """The first of these actions that is there."""
    return next((name for name in actions if name in conf.actions), "")


def judges(conf: Conf, names: tuple[str, ...], switch: str) -> list[Plugin]:
    """Who is asked, in the order of asking."""
    return [p for p in conf.plugins if p.name in names and p.has(switch)]


def allocate_first(conf: Conf) -> Iterator[Finding]:
    if not conf.actions:
        return
    actions = list(conf.actions)
    if "allocate" not in conf.actions:
        yield conf.finding(conf.source.place("actions"), ERROR, "no-allocate",
                           "no pod is ever placed", "allocate is the action that places pods",
                           "add allocate after enqueue")  # fmt: skip
        return
    for name in (*PREEMPT, *RECLAIM):
        if name in actions and actions.index(name) < actions.index("allocate"):
            yield conf.finding(conf.actions[name], WARNING, "evicts-first",
                               f"{name} evicts before free room is looked for",
                               "actions run in the order of the list",
                               f"write {name} behind allocate and backfill")  # fmt: skip


def gang_is_there(conf: Conf) -> Iterator[Finding]:
    if conf.plugins and conf.find("gang") is None:
        yield conf.finding(conf.place(None), ERROR, "no-gang",
                           "jobs start with some of their pods, and half gangs hold each other up",
                           "minAvailable is kept by the plug-in gang alone", "add - name: gang to "
                           "the first tier")  # fmt: skip
    if conf.plugins and conf.find("predicates") is None:
        yield conf.finding(conf.place(None), ERROR, "no-predicates",
                           "pods are placed on nodes that do not take them",
                           "node selectors, taints, ports and volumes are looked at by the plug-in "
                           "predicates alone", "add - name: predicates")  # fmt: skip


def system_is_spared(conf: Conf) -> Iterator[Finding]:
    if "preempt" in conf.actions and not conf.is_asked("conformance", "enablePreemptable"):
        place = conf.place(conf.find("conformance"), "enablePreemptable")
        yield conf.finding(place, WARNING, "system-not-spared",
                           "pods of kube-system and critical pods that Volcano placed may be "
                           "pushed out", "only the plug-in conformance spares them",
                           "add - name: conformance beside priority")  # fmt: skip


def entering(conf: Conf) -> Iterator[Finding]:
    """A job that may not enter pushes out nobody."""
    preempt, reclaim = has(conf, PREEMPT), has(conf, RECLAIM)
    if "enqueue" not in conf.actions or not (preempt or reclaim):
        return
    for name in ("overcommit", *QUEUE_PLUGINS):
        if not conf.is_asked(name, "enableJobEnqueued"):
            continue
        if name != "overcommit" and not preempt:
            continue  # a queue below its share may enter: reclaim works
        full = "cluster" if name == "overcommit" else "queue or cluster"
        remedy = (
            "remove overcommit"
            if name == "overcommit"
            else f"write enableJobEnqueued: false at {name} (or remove enqueue from actions)"
        )
        yield conf.finding(conf.place(conf.find(name)), ERROR, "never-enters",
                           f"on a full {full} jobs stay Pending whatever their priority, with no "
                           f"reason shown, and {preempt or reclaim} does nothing for them",
                           f"{name} does not let a job enter for which there is no room, and "
                           "preempt and reclaim look only at jobs that have entered",
                           remedy)  # fmt: skip


def gangs_are_victims(conf: Conf) -> Iterator[Finding]:
    gang = conf.find("gang")
    shares = next((p for p in conf.plugins if p.name in QUEUE_PLUGINS), None)
    cases = [("enablePreemptable", "preempt", "pushed out, whatever the priority of who waits")]
    if gang is not None and (shares is None or gang.tier >= shares.tier):
        # In a tier of its own it is passed over; `shares_decide` says what it does there.
        cases.append(
            ("enableReclaimable", "reclaim", "taken back, whatever the share of who waits")
        )
    for switch, action, fate in cases:
        if gang is not None and action in conf.actions and gang.has(switch):
            yield conf.finding(conf.place(gang, switch), ERROR, "gang-spared",
                               f"a job that has no more pods than minAvailable is never {fate}",
                               f"at {action} the plug-in gang spares every pod that its job cannot "
                               "do without, and that is all of them",
                               f"write {switch}: false at gang; a job that loses a pod is started "
                               "again as a whole by its policies")  # fmt: skip


def priorities_decide(conf: Conf) -> Iterator[Finding]:
    if "preempt" not in conf.actions:
        return
    asked = judges(conf, JUDGES_PREEMPT, "enablePreemptable")
    priority = next((p for p in asked if p.name == "priority"), None)
    if priority is None:
        found = conf.find("priority")
        yield conf.finding(conf.place(found, "enablePreemptable"), ERROR, "priority-not-asked",
                           "preempt does not look at priorities: it evicts nobody, or anybody"
                           if asked else "preempt never evicts anybody",
                           "only the plug-in priority compares priorities, and it is "
                           + ("turned off" if found else "not there"),
                           "remove enablePreemptable: false from priority" if found
                           else "add - name: priority to the first tier")  # fmt: skip
        return
    for other in asked:
        if other.tier < priority.tier and other.name not in ("gang", "drf", "tdm"):
            yield conf.finding(conf.place(other), ERROR, "decides-alone",
                               "preempt evicts jobs of the same or of higher priority, and they "
                               "evict each other for ever",
                               f"{other.name} in tier {other.tier + 1} names victims before "
                               f"priority in tier {priority.tier + 1} is asked",
                               f"move {other.name} into the tier of priority")  # fmt: skip
    drf = next((p for p in asked if p.name == "drf"), None)
    if drf is not None:
        what = "a job of high priority that is large pushes out nobody"
        why = "beside priority, drf agrees only to victims whose job has more than the one that "
        why += "waits would have"
        if drf.tier != priority.tier:
            what = "jobs of the same or of higher priority are pushed out"
            why = "where priority names no victim the next tier is asked, and drf there looks only "
            why += "at who has more"
        yield conf.finding(conf.place(drf, "enablePreemptable"), ERROR, "drf-preempts", what, why,
                           "write enablePreemptable: false at drf")  # fmt: skip


def shares_decide(conf: Conf) -> Iterator[Finding]:
    if "reclaim" not in conf.actions:
        return
    asked = judges(conf, JUDGES_RECLAIM, "enableReclaimable")
    queue = next((p for p in asked if p.name in QUEUE_PLUGINS), None)
    if queue is None:
        found = next((p for p in conf.plugins if p.name in QUEUE_PLUGINS), None)
        yield conf.finding(conf.place(found, "enableReclaimable"), ERROR, "shares-not-asked",
                           "reclaim takes from any queue, whatever its share, and queues evict "
                           "each other for ever" if asked else "reclaim never takes anything back",
                           "only capacity and proportion know of shares, and "
                           + (f"{found.name} is turned off" if found else "neither is there"),
                           f"remove enableReclaimable: false from {found.name}" if found
                           else "add - name: capacity to the second tier")  # fmt: skip
        return
    for other in asked:
        if other.tier < queue.tier:
            what = "two queues evict each other for ever, each in its turn"
            if other.name == "gang":
                what = "pods beyond minAvailable are taken from queues within their share, for ever"
            yield conf.finding(conf.place(other, "enableReclaimable"), ERROR, "reclaim-ping-pong",
                               what,
                               f"{other.name} in tier {other.tier + 1} names the victims, so that "
                               f"{queue.name} in tier {queue.tier + 1} is never asked who has more "
                               "than its share", f"write enableReclaimable: false at {other.name}, "
                               f"or move it into the tier of {queue.name}")  # fmt: skip
    if not queue.has("enablePreemptive"):
        yield conf.finding(conf.place(queue, "enablePreemptive"), ERROR, "reclaim-ping-pong",
                           "queues take back more than their share, and evict each other for ever",
                           f"nobody asks {queue.name} whether who waits is below its share",
                           f"remove enablePreemptive: false from {queue.name}")  # fmt: skip


def one_queue_plugin(conf: Conf) -> Iterator[Finding]:
    found = [conf.find(name) for name in QUEUE_PLUGINS]
    capacity, proportion = found
    if capacity is not None and proportion is not None:
        yield conf.finding(conf.place(proportion), ERROR, "two-shares",
                           "each queue has two shares, and jobs wait where either of them is used "
                           "up", "capacity takes shares from deserved, proportion from weight, and "
                           "both are asked about every pod", "keep capacity, remove proportion"
                           )  # fmt: skip
    if conf.plugins and not any(found):
        yield conf.finding(conf.place(None), ERROR if has(conf, RECLAIM) else WARNING, "no-shares",
                           "queues have neither caps nor shares",
                           "capability, deserved, guarantee and weight are read by the plug-ins "
                           "capacity and proportion alone", "add - name: capacity to the second "
                           "tier")  # fmt: skip
    for plugin in conf.plugins:
        if plugin.has("enableHierarchy") and plugin.name not in ("capacity", "drf", "nodegroup"):
            yield conf.finding(conf.place(plugin, "enableHierarchy"), WARNING, "ignored",
                               f"enableHierarchy at {plugin.name} has no effect",
                               "only capacity, drf and nodegroup know of a hierarchy",
                               "write it at capacity")  # fmt: skip


def gang_actions(conf: Conf) -> Iterator[Finding]:
    for plain, whole in (("preempt", "gangpreempt"), ("reclaim", "gangreclaim")):
        if plain in conf.actions and whole in conf.actions:
            yield conf.finding(conf.actions[plain], WARNING, "twice",
                               f"{plain} evicts single pods of the gangs that {whole} would spare",
                               "each of the two looks for victims in its own way",
                               f"keep one: {plain} is the older, {whole} takes whole gangs"
                               )  # fmt: skip


RULES: tuple[Callable[[Conf], Iterator[Finding]], ...] = (
    allocate_first,
    gang_is_there,
    system_is_spared,
    entering,
    gangs_are_victims,
    priorities_decide,
    shares_decide,
    one_queue_plugin,
    gang_actions,
)


def judged(conf: Conf) -> list[Finding]:
    return [finding for rule in RULES for finding in rule(conf)]
