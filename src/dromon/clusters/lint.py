"""Files of a cluster's configuration -> every finding. What each rule knows is beside it."""

from collections.abc import Iterable, Iterator

from dromon.clusters import evictions, tenants
from dromon.clusters.conf import Conf, is_conf, read_conf
from dromon.clusters.findings import ERROR, WARNING, Finding
from dromon.clusters.objects import Object, embedded, read_objects
from dromon.engines.kubernetes.volcano import PRIORITY_CLASS, QUEUE
from dromon.errors import JobFileError, Problem


def lint_volcano(files: Iterable[tuple[str, str | bytes]]) -> list[Finding]:
    """Of (name, text). Raises JobFileError when one cannot be read, or none has what we judge."""
    names = []
    confs: list[Conf] = []
    queues: list[tenants.Queue] = []
    classes: list[Object] = []
    findings: list[Finding] = []
    problems: list[Problem] = []
    for name, text in files:
        names.append(name)
        try:
            objects = read_objects(text, name)
            confs += [read_conf(each) for each in _configurations(objects)]
        except JobFileError as error:
            problems += error.problems
            continue
        for each in objects:
            if (each.group, each.kind) == (QUEUE.group, QUEUE.name):
                queue, wrong = tenants.read_queue(each)
                queues.append(queue)
                findings += wrong
            elif (each.group, each.kind) == (PRIORITY_CLASS.group, PRIORITY_CLASS.name):
                classes.append(each)
    if not (confs or queues or classes or problems):
        hint = "name a volcano-scheduler.conf, its ConfigMap, Queues or PriorityClasses"
        problems = [
            Problem(name, 0, 0, "", "nothing of Volcano's is in it", hint) for name in names
        ]
    if problems:
        raise JobFileError(problems, hint="")
    for conf in confs:
        findings += conf.findings
        findings += evictions.judged(conf)
        if not conf.is_refused:
            findings += _missing_actions(conf, queues, classes)
    for extra in confs[1:]:
        findings.append(_two(extra, confs[0]))
    # The others are judged by a configuration that takes effect.
    conf_or_none = next((conf for conf in confs if not conf.is_refused), None)
    findings += tenants.judge_queues(queues, conf_or_none)
    findings += tenants.judge_priorities(classes, conf_or_none)
    return sorted(set(findings), key=lambda finding: finding.order)


def _configurations(objects: list[Object]) -> Iterator[Object]:
    for each in objects:
        if is_conf(each.data):
            yield each
        elif each.kind == "ConfigMap" and isinstance(each.data.get("data"), dict):
            for key, value in each.data["data"].items():
                # Its name is an argument of the scheduler's, so the end of it is what we know.
                if key.endswith(".conf") and isinstance(value, str):
                    yield embedded(each, ("data", key))


def _two(conf: Conf, first: Conf) -> Finding:
    line, _ = first.source.place()
    return conf.finding(conf.source.place(), WARNING, "twice", "only one of these is in effect",
                        f"there is another configuration at {first.source.file}:{line}",
                        "look at the one the scheduler is started with")  # fmt: skip


def _missing_actions(
    conf: Conf, queues: list[tenants.Queue], classes: list[Object]
) -> Iterator[Finding]:
    place = conf.source.place("actions")
    if not evictions.has(conf, evictions.PREEMPT):
        meant = {
            each.data.get("value")
            for each in classes
            if each.data.get("preemptionPolicy") != "Never"
        }
        yield conf.finding(place, ERROR if len(meant) > 1 else WARNING, "no-preempt",
                           "nobody is ever pushed out: a job of high priority is only served first",
                           "there is no action preempt", 'add preempt at the end of actions, as in '
                           '"enqueue, allocate, backfill, reclaim, preempt"')  # fmt: skip
    if not evictions.has(conf, evictions.RECLAIM):
        owed = sum(1 for queue in queues if queue.deserved or "weight" in queue.spec)
        yield conf.finding(place, ERROR if owed > 1 else WARNING, "no-reclaim",
                           "what a queue has lent it does not get back before its borrowers end",
                           "there is no action reclaim", "add reclaim behind backfill"
                           )  # fmt: skip
