"""The tasks as roles: commands, gangs, variables, secrets, images and data of the job file."""

from collections import Counter
from typing import Any

from dromon.compat.volcano import commands, meaning
from dromon.compat.volcano.pods import Task
from dromon.compat.volcano.source import PLAIN, Source
from dromon.compat.volcano.volumes import Volumes
from dromon.frameworks import IMPLIED


def mpi_role(source: Source, tasks: list[Task]) -> Task:
    """One role: its first member launches, all of them are hosts. No sshd, no task of its own."""
    found = meaning.mpi_task(source, tasks)
    assert found is not None
    launcher, hosts = found
    words = commands.without_hosts(launcher.words or [])
    if launcher is not hosts:
        source.note(launcher.path, f"mpirun runs in the first {hosts.name} here: {launcher.name} "
                    "is no role of its own, and needs no sshd", at_key=False)  # fmt: skip
        hosts.image = hosts.image or launcher.image
        hosts.env = {**launcher.env, **hosts.env}
        hosts.secrets = {**launcher.secrets, **hosts.secrets}
    hosts.words, hosts.arguments, hosts.directory = words, [], launcher.directory
    both = {**launcher.policies, **hosts.policies}  # its end is the job's without being told
    hosts.policies = {event: action for event, action in both.items() if event != "role_completed"}
    hosts.least = hosts.replicas  # mpirun counts on all of them
    return hosts


def roles(
    source: Source, tasks: list[Task], names: dict[str, str], volumes: Volumes, framework: str
) -> dict[str, Any]:
    """The keys of the job file that come from the tasks, in its order."""
    implied = {task for task, role in names.items() if role in IMPLIED.get(framework, {})}
    job: dict[str, Any] = {}
    image = image_of(tasks)
    if image:
        job["environment"] = {"image": image}
    common = _common(tasks)
    secrets = list(dict.fromkeys(name for task in tasks for name in task.secrets))
    for name in secrets:
        for task in tasks:
            if task.env.pop(name, None) is not None:
                common.pop(name, None)
                source.note(task.path, f"{name} is a secret in another task: its value here is "
                            "left out", at_key=False)  # fmt: skip
    if common:
        job["env"] = common
    if secrets:
        job["secrets"] = secrets
    if volumes.ours:
        job["volumes"] = {name: _volume(volume) for name, volume in sorted(volumes.ours.items())}
    least = _least(source, tasks)
    job["roles"] = {names[task.name]: _role(source, task, least, common, implied) for task in tasks}
    return job


def image_of(tasks: list[Task]) -> str:
    """The one most tasks have, the first of them where there is a choice."""
    images = Counter(task.image for task in tasks if task.image)
    return images.most_common(1)[0][0] if images else ""


def _volume(volume: dict[str, str]) -> dict[str, str]:
    is_usual = volume["access"] == ("mount" if volume["source"] == "node" else "copy")
    return {"source": volume["source"]} if is_usual else dict(volume)


def _common(tasks: list[Task]) -> dict[str, str]:
    first = tasks[0].env
    return {k: v for k, v in first.items() if all(task.env.get(k) == v for task in tasks)}


def _role(
    source: Source,
    task: Task,
    least: dict[str, int],
    common: dict[str, str],
    implied: set[str],
) -> dict[str, Any]:
    role: dict[str, Any] = {"replicas": task.replicas}
    if least[task.name] != task.replicas:
        role["min"] = least[task.name]
    command = None if task.name in implied and task.words is None else _command(source, task)
    if command is not None:
        role["command"] = command
    if task.resources:
        order = ("cpus", "memory", "gpus", "shm")
        role["resources"] = {key: task.resources[key] for key in order if key in task.resources}
    own = {key: value for key, value in task.env.items() if key not in common}
    if own:
        role["env"] = own
    if task.policies:
        role["policies"] = task.policies
    return role


def _command(source: Source, task: Task) -> commands.Command | None:
    path = (*task.path, "template", "spec", "containers", 0)
    if task.words is None:
        said = f" It gets the arguments {' '.join(task.arguments)}." if task.arguments else ""
        source.note(path, f"{task.name}: the command is the image's own (ENTRYPOINT), which a job "
                    f"file must write out.{said}", at_key=False)  # fmt: skip
        return None
    if own := commands.volcanos_own(" ".join(task.words)):
        source.note((*path, "command"), f"only on Kubernetes there is {', '.join(own)}; "
                    "$DROMON_ROLE, $DROMON_INDEX and the framework's own variables are everywhere"
                    )  # fmt: skip
    if task.directory:
        return commands.simplest(commands.in_directory(task.words, task.directory))
    if relative := commands.relative_paths(task.words):
        source.note((*path, "command"), f"{', '.join(relative)} was looked for in the image's "
                    "working directory; here in a copy of `workdir:`: write the whole path, or set "
                    "workdir")  # fmt: skip
    return commands.simplest(task.words)


def _least(source: Source, tasks: list[Task]) -> dict[str, int]:
    """The gang: of each task what it says, and of a job's own number what the others leave."""
    least = {
        t.name: t.replicas if t.least is None else max(1, min(t.least, t.replicas)) for t in tasks
    }
    wanted = source.whole(source.spec, "minAvailable", source.root)
    if source.kind == PLAIN or wanted is None:
        return least
    spare = sum(least.values()) - wanted
    free = sorted((t for t in tasks if t.least is None), key=lambda t: -t.replicas)
    if spare > 0 and free and len(tasks) > 1:
        source.note((*source.root, "minAvailable"), f"any {wanted} of the pods were enough: a job "
                    f"file says it of each role, here of {free[0].name}")  # fmt: skip
    for task in free:
        less = min(max(spare, 0), least[task.name] - 1)
        least[task.name] -= less
        spare -= less
    return least
