"""Jobs on a bed: an engine for it, small jobs, what is seen of them, and their processes.

Nodes are this machine: what runs in a pod is in its /proc, too.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import IMAGE

from dromon.contexts.file import Context
from dromon.engines.base import Filter, JobStatus
from dromon.engines.kubernetes import kubeconfig
from dromon.engines.kubernetes.engine import KubernetesEngine
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.volcano import (
    COMMAND,
    CONFIG_MAP,
    JOB,
    LIGHT_LABEL,
    PLAIN_JOB,
    POD,
    POD_GROUP,
    SECRET,
    VOLCANO_JOB,
    Kind,
)

# What every member's script starts with.
PREAMBLE = """\
import json, os, signal, sys, time
rank = int(os.environ["DROMON_RANK"])
attempt = int(os.environ["DROMON_ATTEMPT"])
me = os.environ["DROMON_ROLE"] + "-" + os.environ["DROMON_INDEX"]
def say(*words):
    print(*words, flush=True)
def path(name):
    return os.path.join(os.environ["DROMON_CHECKPOINT_DIR"], name)
"""
# Members that write down that they live, until they may go.
BEATS = """\
say("up")
while not os.path.exists(path("go")):
    with open(path("beats"), "a") as file:
        file.write(f"{me} {attempt} {os.environ['HOSTNAME']} {time.time()}\\n")
    time.sleep(0.2)
say("done")
"""
SMALL = {"cpus": 0.1, "memory": "64MiB"}
TWO = {"worker": {"replicas": 2}}
PATIENCE = float(os.environ.get("DROMON_TEST_PATIENCE", "300"))  # a machine may have other work
SERVICE = Kind("", "v1", "Service", "services")
ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
KINDS = (JOB, PLAIN_JOB, POD_GROUP, COMMAND, POD, CONFIG_MAP, SECRET, SERVICE)


class Beat(NamedTuple):
    """A moment at which a member lived."""

    member: str
    attempt: int
    at: float


def engine(
    bed: Bed,
    home: Path | str,
    *,
    user: str = "",
    store: bool = True,
    store_at: str = "",
    **context: Any,
) -> KubernetesEngine:
    """A client of the bed: its administrator, or a user of it."""
    where = bed.kubeconfig_of(user) if user else bed.kubeconfig
    given = {
        "store": (store_at or bed.shared) if store else "",
        "image": IMAGE,
        "pull": "Never",
        **context,
    }
    return KubernetesEngine(Context("bed", "kubernetes", where, **given), str(home))


def request(script: str | None = None, **job: Any) -> dict[str, Any]:
    """What `engine.start` takes. A script is Python, after the preamble; roles without one of
    their own run it too, and ask for little."""
    plain: dict[str, Any] = {"resources": SMALL}
    if script is not None:
        plain["command"] = ["python3", "-S", "-c", PREAMBLE + textwrap.dedent(script)]
    if "roles" in job:
        job["roles"] = {name: {**plain, **role} for name, role in job["roles"].items()}
    else:
        job = {**plain, **job}
    return {
        "cwd": tempfile.mkdtemp(prefix="dromon-work-", dir="/tmp"),
        "environ": dict(os.environ),
        "data": {"name": "job", **job},
    }


def run(engine: KubernetesEngine, script: str | None = None, **job: Any) -> str:
    """Submitted: its id."""
    asked = request(script, **job)
    try:
        return str(engine.start(asked)["id"])
    finally:
        os.rmdir(asked["cwd"])


def command(folder: Path, kubeconfig: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, as somebody whose kubeconfig that is."""
    env = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    env |= {f"DROMON_{name}": str(folder / name) for name in ("HOME", "CONFIG", "CACHE")}
    env |= {"KUBECONFIG": kubeconfig, "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "dromon.cli", *words], cwd=folder, env=env, capture_output=True,
        text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE, check=False,
    )  # fmt: skip


def until(condition: Callable[[], Any], timeout: float = PATIENCE, every: float = 0.2) -> Any:
    """What the condition gives once it is true, or what it gave last."""
    deadline = time.monotonic() + timeout
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(every)
    return found


def ended(engine: KubernetesEngine, ref: str) -> JobStatus:
    assert until(lambda: engine.status(ref).is_terminal), told(engine, ref)
    return engine.status(ref)


def texts(engine: KubernetesEngine, ref: str) -> list[str]:
    return [line.text for line in engine.logs(ref, follow=False)]


def has_said(engine: KubernetesEngine, ref: str, text: str, times: int = 1) -> None:
    def enough() -> bool:
        return texts(engine, ref).count(text) >= times or engine.status(ref).is_terminal

    until(enough)
    assert texts(engine, ref).count(text) >= times, told(engine, ref)


def runs(engine: KubernetesEngine, ref: str) -> None:
    """It is said to run; a member may speak before its kubelet tells anybody that its pod runs."""
    assert until(lambda: engine.status(ref).state == "running"), told(engine, ref)


def stands_in_line(engine: KubernetesEngine, ref: str, members: int) -> None:
    """It waits, and Volcano's scheduler knows of all its pods: the next room may be its."""

    def pods() -> list[dict[str, Any]]:
        return engine.api.list(POD, engine.namespace, labels=f"{VOLCANO_JOB}={ref}")

    assert until(lambda: len(pods()) == members), told(engine, ref)
    assert engine.status(ref).state == "queued", told(engine, ref)


def reason(engine: KubernetesEngine, ref: str, words: str) -> str:
    """What `why` says, once it says these words."""
    said = [""]

    def says() -> bool:
        waiting = engine.why(ref)
        said[0] = waiting.sentence if waiting is not None else ""
        return words in said[0] or engine.status(ref).is_terminal

    until(says)
    assert words in said[0], f"why: {said[0]!r}\n{told(engine, ref)}"
    return said[0]


def told(engine: KubernetesEngine, ref: str) -> str:
    """All there is to say about a job, for a failed assertion."""
    lines = [f"{line.member}#{line.run}: {line.text}" for line in engine.logs(ref, follow=False)]
    return "\n".join([repr(engine.status(ref)), repr(engine.why(ref)), *lines[-50:]])


def stop_all(engine: KubernetesEngine) -> None:
    """Nothing of one test is left for the next."""
    for status in engine.list(Filter()):
        engine.stop(status.id, 0)
    assert until(lambda: not engine.list(Filter())), engine.list(Filter())


# ---- what members wrote down --------------------------------------------------------------------


def checkpoints(engine: KubernetesEngine, ref: str) -> Path:
    assert engine.store is not None
    return Path(engine.store.record(ref).checkpoints)


def beats(engine: KubernetesEngine, ref: str) -> list[Beat]:
    try:
        lines = (checkpoints(engine, ref) / "beats").read_text().splitlines()
    except FileNotFoundError:
        return []
    whole = [line.split() for line in lines if len(line.split()) == 4]
    return [Beat(member, int(attempt), float(at)) for member, attempt, _, at in whole]


def beats_on(engine: KubernetesEngine, ref: str, *members: str, attempt: int = 1) -> None:
    """Every one of them has lived since now, in that attempt."""
    now = time.time()

    def living() -> set[str]:
        return {b.member for b in beats(engine, ref) if b.at > now and b.attempt == attempt}

    assert until(lambda: living() >= set(members)), (
        f"of {members} only {living()} live in attempt {attempt}\n{told(engine, ref)}"
    )


def let_go(engine: KubernetesEngine, ref: str) -> None:
    """Members that beat may end."""
    (checkpoints(engine, ref) / "go").touch()


def never_together(engine: KubernetesEngine, ref: str) -> bool:
    """No member lived in one attempt after anybody had begun the next."""
    found = beats(engine, ref)
    first: dict[int, float] = {}
    for beat in found:
        first[beat.attempt] = min(beat.at, first.get(beat.attempt, beat.at))
    return all(b.at < first.get(b.attempt + 1, float("inf")) for b in found)


# ---- pods, objects, processes -------------------------------------------------------------------


def node_of(engine: KubernetesEngine, ref: str, member: str) -> str:
    pod = engine.api.read(POD, engine.namespace, f"{ref}-{member}")
    assert pod is not None
    return str(pod["spec"].get("nodeName", ""))


def uid_of(engine: KubernetesEngine, ref: str, member: str) -> str:
    pod = engine.api.read(POD, engine.namespace, f"{ref}-{member}")
    return str(pod["metadata"]["uid"]) if pod is not None else ""


def processes(ref: str, member: str = "") -> list[int]:
    """Living ones of the job's pods, or of one member's; the front of a pod first."""
    role, _, index = member.rpartition("-")
    of_pod = f"DROMON_POD={ref}-{member}".encode() + (b"\0" if member else b"")
    of_member = [f"DROMON_JOB_ID={ref}\0".encode()]
    if member:
        of_member += [f"DROMON_ROLE={role}\0".encode(), f"DROMON_INDEX={index}\0".encode()]
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environ = (folder / "environ").read_bytes()
            is_theirs = of_pod in environ or all(mark in environ for mark in of_member)
            if is_theirs and _is_alive(folder):
                found.append(int(folder.name))
    return sorted(found)


def _is_alive(folder: Path) -> bool:
    """A zombie is dead."""
    return (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z"


def objects(engine: KubernetesEngine, volcano: bool = True) -> list[str]:
    """Everything in the namespace that a job may have made: kind/name."""
    own = {"kube-root-ca.crt", "kubernetes"}
    kinds = [kind for kind in KINDS if volcano or not kind.group.endswith("volcano.sh")]
    return [
        f"{kind.name}/{one['metadata']['name']}"
        for kind in kinds
        for one in engine.api.list(kind, engine.namespace)
        if one["metadata"]["name"] not in own
    ]


def light_maps(engine: KubernetesEngine) -> list[str]:
    return list(engine.api.list_names(CONFIG_MAP, engine.namespace, labels=LIGHT_LABEL))


def is_settled(api: Api, namespace: str) -> None:
    """Without these no pod of a new namespace is let in, or none starts."""
    for kind, name in ((ACCOUNT, "default"), (CONFIG_MAP, "kube-root-ca.crt")):
        assert until(lambda kind=kind, name=name: api.read(kind, namespace, name)), name


@contextlib.contextmanager
def namespace(bed: Bed, name: str) -> Iterator[str]:
    """One of its own, with all that is in it."""
    made = bed.kubectl("create", "namespace", name)
    assert made.returncode == 0, made.stderr
    with Api(kubeconfig.find(bed.kubeconfig)) as api:
        is_settled(api, name)
    try:
        yield name
    finally:
        bed.kubectl("delete", "namespace", name, "--wait=false")
