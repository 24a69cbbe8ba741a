"""What goes under `kubernetes:`, to be merged last into the objects as it was."""

from collections.abc import Mapping
from typing import Any

from dromon.compat.volcano.amounts import span
from dromon.compat.volcano.meaning import NOT_NEEDED
from dromon.compat.volcano.pods import MAIN, Task
from dromon.compat.volcano.roles import image_of
from dromon.compat.volcano.source import PLAIN, Source

# Keys of a Job's spec that have a place in the job file, or are ours to set.
KNOWN = frozenset((
    "schedulerName", "minAvailable", "volumes", "tasks", "policies", "plugins", "queue", "maxRetry",
    "ttlSecondsAfterFinished", "priorityClassName",
    # of a plain Job
    "parallelism", "completions", "completionMode", "backoffLimit", "activeDeadlineSeconds",
    "template", "selector", "manualSelector", "suspend", "podFailurePolicy", "podReplacementPolicy",
    "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes",
))  # fmt: skip
LOST = {
    "suspend": "a job file has no such switch",
    "podFailurePolicy": "write it as policies: {exit_code:N: abort_job}",
    "successPolicy": "the job succeeds when all members have",
    "backoffLimitPerIndex": "retries count for the whole job",
    "maxFailedIndexes": "retries count for the whole job",
}
# Annotations that others wrote, or that have a key of their own.
FOREIGN = ("kubectl.kubernetes.io/", "volcano.sh/", "scheduling.k8s.io/", "scheduling.volcano.sh/",
           "kubernetes.io/", "batch.kubernetes.io/")  # fmt: skip
KEPT = ("volcano.sh/sla-waiting-time", "sla-waiting-time")


def hatch(source: Source, tasks: list[Task], names: Mapping[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    metadata = source.mapping(source.object.data, "metadata", ())
    labels = _agreed(source, tasks, "labels")
    labels |= _own(source.mapping(metadata, "labels", ("metadata",)))
    annotations = _agreed(source, tasks, "annotations")
    annotations |= _own(source.mapping(metadata, "annotations", ("metadata",)))
    if labels:
        made["labels"] = labels
    if annotations:
        made["annotations"] = annotations
    accounts = list(dict.fromkeys(t.service_account for t in tasks if t.service_account))
    if accounts:
        made["service_account"] = accounts[0]
        if len(accounts) > 1:
            source.note(tasks[0].path, f"one service account for all roles: {accounts[0]}",
                        at_key=False)  # fmt: skip
    if secret := _secret(source, tasks):
        made["secret"] = secret
    seconds = source.whole(source.spec, "ttlSecondsAfterFinished", source.root)
    if seconds is not None:
        made["ttl"] = span(seconds)
    made |= _pods(tasks, names)
    return made


def _agreed(source: Source, tasks: list[Task], word: str) -> dict[str, str]:
    """What all pods carry alike."""
    each = [_own(getattr(task, word)) for task in tasks]
    agreed = {k: v for k, v in each[0].items() if all(other.get(k) == v for other in each)}
    for task, own in zip(tasks, each, strict=True):
        if lost := sorted(set(own) - set(agreed)):
            source.note((*task.path, "template", "metadata", word), f"{', '.join(lost)}: all pods "
                        f"of a job have the same {word}: left out")  # fmt: skip
    return agreed


def _own(given: Mapping[str, Any]) -> dict[str, str]:
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in given.items()
        if key in KEPT or not str(key).startswith(FOREIGN)
    }


def _secret(source: Source, tasks: list[Task]) -> str:
    """The Secret that holds every value under its variable's name; else they are supplied."""
    wanted = {(variable, *where) for task in tasks for variable, where in task.secrets.items()}
    named = {secret for _, secret, _ in wanted}
    if len(named) == 1 and all(variable == key for variable, _, key in wanted):
        return named.pop()
    for variable, secret, key in sorted(wanted):
        source.note(source.root, f"{variable} was the key {key} of the Secret {secret}: its value "
                    "is supplied at submit", at_key=False)  # fmt: skip
    return ""


def _pods(tasks: list[Task], names: Mapping[str, str]) -> dict[str, Any]:
    image = image_of(tasks)
    pods = {}
    for task in tasks:
        pod = dict(task.pod)
        if task.image and task.image != image:
            pod["containers"] = _with_image(pod.get("containers", []), task.image)
        pods[names[task.name]] = pod
    first = next(iter(pods.values()))
    shared = {k: v for k, v in first.items() if all(p.get(k) == v for p in pods.values())}
    own = {
        role: {"pod": rest}
        for role, pod in pods.items()
        if (rest := {k: v for k, v in pod.items() if k not in shared})
    }
    made: dict[str, Any] = {}
    if shared:
        made["pod"] = shared
    if own:
        made["roles"] = own
    return made


def _with_image(containers: list[Mapping[str, Any]], image: str) -> list[Mapping[str, Any]]:
    if containers and containers[0].get("name") == MAIN:
        return [{**containers[0], "image": image}, *containers[1:]]
    return [{"name": MAIN, "image": image}, *containers]


def job_hatch(source: Source, plugins: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of the Job itself that only Volcano understands."""
    spec, root = source.spec, source.root
    made = {key: value for key, value in spec.items() if key not in KNOWN}
    for key in ("minSuccess", "runningEstimate"):
        if made.pop(key, None) is not None:
            text = "the job succeeds when all required members have" if key == "minSuccess" else (
                "nothing reads it")  # fmt: skip
            source.note((*root, key), f"{text}: left out")
    for key, why in LOST.items():
        if spec.get(key):
            source.note((*root, key), f"{why}: left out")
    if "plugins" in spec and source.kind != PLAIN:
        others = {name: value for name, value in plugins.items() if name not in NOT_NEEDED}
        if "ray" in others:
            source.note((*root, "plugins", "ray"), "it overwrites the commands of pods: left out; "
                        "write `ray start` as the command of each role")  # fmt: skip
            others.pop("ray")
        if others:
            made["plugins"] = others
    scheduler = spec.get("schedulerName")
    if scheduler not in (None, "", "volcano") and source.kind != PLAIN:
        source.note((*root, "schedulerName"), f"jobs are scheduled by volcano, not by {scheduler}")
    if spec.get("completionMode") == "Indexed":
        source.note((*root, "completionMode"), "$JOB_COMPLETION_INDEX is $DROMON_INDEX here")
    return made
