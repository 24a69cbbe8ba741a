"""A site as Volcano takes it: Queues, PriorityClasses and the scheduler's configuration.

The configuration is one that was tried as a whole on a cluster: preemption within a full queue and
on a full cluster, reclaim down to each share without queues taking turns, caps that hold.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dromon.engines.kubernetes.quantities import quantity
from dromon.engines.kubernetes.volcano import CONFIG_MAP, PRIORITY_CLASS, QUEUE, Kind
from dromon.site import shares
from dromon.site.model import ROOT, Queue, Site, known
from dromon.spec.sentences import Wrong

CONFIG_FILE = "volcano-scheduler.conf"
CONFIG_NAME, CONFIG_NAMESPACE = "volcano-scheduler-configmap", "volcano-system"

CONF = """\
# Jobs enter at once, so that preempt and reclaim see them on a full cluster too.
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false      # else a gang at its minimum is never pushed out
    enableReclaimable: false
  - name: conformance
    enableReclaimable: false      # else shares are not asked, and queues evict each other for ever
  - name: sla
    arguments:
      sla-waiting-time: 1h
- plugins:
  - name: drf
    enablePreemptable: false      # else it overrules priorities
  - name: predicates
  - name: capacity
{hierarchy}    enableJobEnqueued: false      # else who could push others out never enters
  - name: nodeorder
  - name: binpack
"""
# Of a queue and of a site: what only this product's own scheduler knows.
UNKNOWN = (
    "user_limit", "max_running", "max_queued", "user_max_running", "user_max_queued",
    "max_duration", "budget", "user_budget", "non_preemptible", "aging", "submit",
)  # fmt: skip
UNKNOWN_TOP = (
    "users", "admins", "reservations", "half_life", "min_run_time", "policy", "placement",
)  # fmt: skip
HIERARCHY = "    enableHierarchy: true         # queues have queues below them\n"


def configuration(site: Site) -> str:
    """The text of `volcano-scheduler.conf`."""
    has_tree = any(queue.above != ROOT for queue in site.queues.values())
    return CONF.format(hierarchy=HIERARCHY if has_tree else "")


def files(site: Site) -> dict[str, list[dict[str, Any]]]:
    """File name -> the objects in it, in the order in which a cluster takes them."""
    return {
        "priorities.yaml": _priorities(site),
        "queues.yaml": _queues(site),
        "scheduler.yaml": [_config_map(site)],
    }


def rules(site: Site) -> Iterator[Wrong]:
    """What Volcano needs beyond a site file that is right: amounts, where weights are given."""
    for name, queue in site.queues.items():
        if queue.weight is not None and not _is_divisible(site, name):
            yield Wrong(("queues", name, "weight"), "nobody says of what this is a part",
                        "add total: {cpus: …, memory: …, gpus: …} at the top, or write deserved",
                        at_key=True, about=(("total",),))  # fmt: skip


def _is_divisible(site: Site, name: str) -> bool:
    above = site.queues[name].above
    if above == ROOT or above not in site.queues:
        return site.total is not None
    return site.queues[above].deserved is not None or _is_divisible(site, above)


def notes(site: Site) -> list[str]:
    """What an administrator should know of the result; and what of the site file is not in it."""
    found = []
    owed = shares.deserved(site)
    for name, _ in shares.in_order(site):
        if not owed[name]:
            found.append(
                f"queue {name} deserves nothing: it runs on what is idle, and gives it back at once"
            )
    for name, queue in shares.in_order(site):
        left = [key for key in UNKNOWN if key in queue.model_fields_set]
        if left:
            found.append(f"queue {name}: Volcano has no {', no '.join(left)}; left out")
        if not queue.open:
            found.append(f"queue {name}: whether it is open is its status there, not its spec; "
                         f"close it with `vcctl queue operate -a close -n {name}`")  # fmt: skip
        found += _kinds(name, queue)
    for name, priority in sorted(site.priorities.items()):
        left = [key for key in ("submit", "user_budget") if key in priority.model_fields_set]
        if left:
            found.append(f"priority {name}: Volcano has no {', no '.join(left)}; left out")
    left = [key for key in UNKNOWN_TOP if key in site.model_fields_set]
    if left:
        found.append(f"Volcano has no {', no '.join(left)}; left out")
    if site.queues and "default" not in site.queues:
        found.append(
            "there is no queue default: jobs that name no queue run in Volcano's own, which "
            "deserves nothing"
        )
    if site.priorities and not any(each.default for each in site.priorities.values()):
        found.append(
            "no priority is the default: pods that name none have priority 0 and are pushed out "
            "by every class above it"
        )
    return found


def _kinds(name: str, queue: Queue) -> Iterator[str]:
    """Its GPUs are one resource."""
    for word in ("deserved", "guarantee"):
        if any(key.startswith("gpus.") for key in known(getattr(queue, word))):
            yield f"queue {name}: {word} of kinds of GPUs is counted as GPUs of any kind"
    if kinds := [key for key in known(queue.limit) if key.startswith("gpus.")]:
        told = ", ".join(key.removeprefix("gpus.") for key in kinds)
        yield f"queue {name}: its limit of {told} is left out; Volcano counts GPUs of any kind"


def _priorities(site: Site) -> list[dict[str, Any]]:
    found = []
    for name, priority in sorted(site.priorities.items()):
        body: dict[str, Any] = _object(PRIORITY_CLASS, name)
        body["value"] = priority.value
        never = priority.preempt == "never"
        body["preemptionPolicy"] = "Never" if never else "PreemptLowerPriority"
        if priority.default:  # false is not kept: every apply would find a difference
            body["globalDefault"] = True
        if priority.description:
            body["description"] = priority.description
        found.append(body)
    return found


def _queues(site: Site) -> list[dict[str, Any]]:
    owed, kept = shares.deserved(site), shares.guarantees(site)
    gpu = site.kubernetes.gpu_resource
    found = []
    for name, queue in shares.in_order(site):
        spec: dict[str, Any] = {
            "parent": queue.above,
            "priority": queue.priority,
            "reclaimable": queue.reclaimable,
            "weight": queue.weight or 1,
        }
        amounts = {"deserved": owed[name], "capability": known(queue.limit)}
        for key, value in amounts.items():
            if written := _resources(value, gpu):
                spec[key] = written
        if kept[name]:
            spec["guarantee"] = {"resource": _resources(kept[name], gpu)}
        found.append({**_object(QUEUE, name), "spec": spec})
    return found


def _config_map(site: Site) -> dict[str, Any]:
    body = _object(CONFIG_MAP, CONFIG_NAME)
    body["metadata"]["namespace"] = CONFIG_NAMESPACE
    return {**body, "data": {CONFIG_FILE: configuration(site)}}


def _object(kind: Kind, name: str) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}}


def _resources(amounts: Mapping[str, float], gpu: str) -> dict[str, str]:
    """As text all of them: a number could be read back in another way."""
    names = {"cpus": "cpu", "memory": "memory", "gpus": gpu}
    return {names[key]: _written(key, value) for key, value in amounts.items() if key in names}


def _written(key: str, amount: float) -> str:
    if key == "memory" or amount != int(amount):
        return quantity(amount)
    return str(int(amount))
