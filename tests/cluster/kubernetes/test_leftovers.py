"""What is left of a job: nothing, however it ended, and whoever died while it was submitted."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jobs
import pytest
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import IMAGE

from dromon.engines.kubernetes.engine import KubernetesEngine
from dromon.engines.kubernetes.volcano import JOB_LABEL, POD

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SPACE = "tidy"
SLEEP = "say('up'); time.sleep(600)"


@pytest.fixture(scope="module")
def space(bed: Bed) -> Iterator[str]:
    """A namespace where nothing is but what these tests make."""
    with jobs.namespace(bed, SPACE) as made:
        yield made


@pytest.fixture
def engine(bed: Bed, space: str, tmp_path: Path) -> Iterator[KubernetesEngine]:
    # A room of its own in the store, too.
    store = Path(bed.shared, tmp_path.name)
    store.mkdir()
    made = jobs.engine(
        bed, tmp_path / "home", namespace=space, store_at=str(store),
        properties={"nodes.grow": "yes"},
    )  # fmt: skip
    yield made
    jobs.stop_all(made)
    made.collect(older_than=0)
    made.close()
    shutil.rmtree(store)


def work(folder: Path, **files: bytes) -> str:
    """A directory to submit from."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return str(folder)


def kept(engine: KubernetesEngine) -> list[str]:
    """Files of the store."""
    assert engine.store is not None
    return [os.path.join(at, name) for at, _, names in os.walk(engine.store.root) for name in names]


def nothing_is_left(engine: KubernetesEngine) -> None:
    assert jobs.until(lambda: not jobs.objects(engine)), jobs.objects(engine)
    assert engine.store is None or engine.store.records() == []


# ---- rm and gc ----------------------------------------------------------------------------------


def test_nothing_is_left_when_the_last_job_is_removed(
    engine: KubernetesEngine, tmp_path: Path
) -> None:
    asked = jobs.request(
        "say(os.environ['TOKEN'], open('data').read())", roles=jobs.TWO,
        secrets=["TOKEN"], outputs=["data"],
    )  # fmt: skip
    asked |= {"cwd": work(tmp_path / "work", data=b"seen"), "supplied": {"TOKEN": "hush"}}
    asked["environ"] = {**asked["environ"], "TOKEN": "hush"}
    refs = [str(engine.start({**asked, "token": token})["id"]) for token in ("aaaa", "bbbb")]
    for ref in refs:
        assert jobs.ended(engine, ref).state == "succeeded", jobs.told(engine, ref)
        assert len(jobs.texts(engine, ref)) == 2
    (light,) = jobs.light_maps(engine)
    engine.remove(refs[:1])
    assert jobs.until(lambda: not [one for one in jobs.objects(engine) if refs[0] in one])
    assert jobs.light_maps(engine) == [light]  # the other one has it, too
    assert engine.store is not None
    assert engine.store.records() == refs[1:]
    engine.remove(refs[1:])
    nothing_is_left(engine)
    engine.collect(older_than=0)
    assert kept(engine) == []  # nor what they had shared


def test_gc_takes_what_old_jobs_and_dead_clients_left(engine: KubernetesEngine) -> None:
    over = jobs.run(engine, "pass")
    alive = jobs.run(engine, SLEEP)
    assert jobs.ended(engine, over).state == "succeeded"
    jobs.has_said(engine, alive, "up")
    assert engine.collect()["removed"] == []  # they are not old
    assert engine.collect(older_than=0, dry_run=True)["removed"] == [over]
    assert engine.collect(older_than=0)["removed"] == [over]
    jobs.runs(engine, alive)
    engine.stop(alive, 0)
    jobs.ended(engine, alive)
    assert engine.collect(older_than=0)["removed"] == [alive]
    nothing_is_left(engine)
    assert kept(engine) == []


def test_logs_outputs_and_verdict_stay_when_the_pods_are_gone(
    engine: KubernetesEngine, tmp_path: Path
) -> None:
    """A node that was taken away takes its pods along; so does a cluster that tidies up."""
    script = """
    say(me, "works")
    open("model", "w").write("weights")
    open(path(f"said-{rank}"), "w").close()
    while not os.path.exists(path("said-0")):  # whoever fails first ends the other
        time.sleep(0.1)
    sys.exit(rank * 3)
    """
    asked = jobs.request(script, roles=jobs.TWO, outputs=["model"])
    ref = str(engine.start({**asked, "cwd": work(tmp_path / "work", data=b"")})["id"])
    before = jobs.ended(engine, ref)
    engine.api.delete_all(POD, engine.namespace, f"{JOB_LABEL}={ref}", grace=0)
    assert jobs.until(lambda: not engine.jobs.pods(ref))
    after = engine.status(ref)
    assert (after.state, after.verdict) == (before.state, before.verdict)
    assert (after.verdict or {})["member"] == "worker-1"
    assert sorted(jobs.texts(engine, ref)) == ["worker-0 works", "worker-1 works"]
    assert [line.text for line in engine.lines(ref, follow=True, ranks=frozenset([1]))] == [
        "worker-1 works"
    ]


# ---- stop ---------------------------------------------------------------------------------------


def test_a_job_that_waits_is_stopped_and_so_again(engine: KubernetesEngine) -> None:
    nowhere = {"pod": {"nodeSelector": {"example.com/is": "nowhere"}}}
    ref = jobs.run(engine, "pass", kubernetes=nowhere, roles=jobs.TWO)
    jobs.reason(engine, ref, "example.com/is")
    assert engine.stop_ref(ref) == {"id": ref, "active": True}
    engine.stop(ref)
    status = jobs.ended(engine, ref)
    assert (status.state, status.attempt) == ("stopped", 0)
    assert engine.stop_ref(ref) == {"id": ref, "active": False}
    engine.remove([ref])
    nothing_is_left(engine)


def test_a_job_whose_coordinator_does_not_answer_is_stopped(engine: KubernetesEngine) -> None:
    ref = jobs.run(engine, SLEEP, roles=jobs.TWO, stop_grace=1)
    jobs.has_said(engine, ref, "up", times=2)
    for pid in jobs.processes(ref, "worker-0"):
        os.kill(pid, signal.SIGSTOP)
    engine.stop(ref)
    assert jobs.ended(engine, ref).state == "stopped"
    assert jobs.until(lambda: not jobs.processes(ref))
    engine.remove([ref])
    nothing_is_left(engine)


# ---- submit -------------------------------------------------------------------------------------


def test_the_same_submit_twice_at_once_is_one_job(
    bed: Bed, engine: KubernetesEngine, tmp_path: Path
) -> None:
    asked = {**jobs.request("say('it ran')"), "token": "same"}
    others = [
        KubernetesEngine(engine.context, str(tmp_path / f"machine{number}")) for number in range(4)
    ]
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda one=one: answers.append(one.start(asked))) for one in others
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer["id"] for answer in answers] == ["job-same"] * 4
    assert sorted(answer["created"] for answer in answers) == [False, False, False, True]
    assert jobs.ended(engine, "job-same").state == "succeeded"
    assert jobs.texts(engine, "job-same") == ["it ran"]
    for one in others:
        one.close()
    engine.remove(["job-same"])
    nothing_is_left(engine)


CLIENT = """
import json, sys, time
sys.path[:0] = json.loads(sys.argv[1])
from dromon.contexts.file import Context
from dromon.engines.kubernetes.engine import KubernetesEngine

context, asked = json.loads(sys.argv[2]), json.loads(sys.argv[4])
engine, point = KubernetesEngine(Context(**context), sys.argv[3]), sys.argv[5]

def here(name, *words):
    if name.startswith(point):
        print("here", flush=True)
        time.sleep(600)

class Slow:
    def __init__(self, api):
        self.api = api
    def __getattr__(self, name):
        return getattr(self.api, name)
    def create(self, kind, namespace, body, **words):
        made = self.api.create(kind, namespace, body, **words)
        here(f"made {kind.name} {'light' if 'light' in body['metadata']['name'] else ''}".strip())
        return made

engine.__dict__["api"] = Slow(engine.api)
engine.start(asked, here)
here("submitted")
"""
POINTS = ("uploading", "submitting", "made ConfigMap", "made Secret", "made Job", "submitted")


def test_a_client_killed_at_any_point_of_submitting_leaves_one_job_at_most(
    engine: KubernetesEngine, tmp_path: Path
) -> None:
    cwd = work(tmp_path / "work", data=os.urandom(1 << 20))
    requests = {}
    for number, point in enumerate(POINTS):
        asked = jobs.request("say('it ran')", name=f"at{number}")
        requests[point] = {**asked, "cwd": cwd, "token": "k2l4"}
        context = json.dumps(engine.context._asdict())
        paths = json.dumps([entry for entry in sys.path if entry])
        here = [context, str(tmp_path / f"home{number}"), json.dumps(requests[point]), point]
        client = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(CLIENT), paths, *here], stdout=subprocess.PIPE
        )
        with client:
            assert client.stdout is not None
            assert client.stdout.readline() == b"here\n", point
            client.kill()
        if point == "uploading":  # the next ones find what is shared, and go on to their point
            shutil.rmtree(tmp_path / f"home{number}")
    made = [job["metadata"]["name"] for job in engine.jobs.all()]
    assert sorted(made) == ["at4-k2l4", "at5-k2l4"]
    for number, point in enumerate(POINTS):
        again = engine.start(requests[point])
        assert (again["id"], again["created"]) == (f"at{number}-k2l4", number < 4), point
    for number in range(len(POINTS)):
        ref = f"at{number}-k2l4"
        assert jobs.ended(engine, ref).state == "succeeded", jobs.told(engine, ref)
        assert jobs.texts(engine, ref) == ["it ran"]
    # Each has its things, so that they go with it even where somebody else deletes the job.
    for number in range(len(POINTS)):
        engine.api.delete(jobs.JOB, engine.namespace, f"at{number}-k2l4")
    assert jobs.until(lambda: not jobs.objects(engine)), jobs.objects(engine)
    engine.collect(older_than=0)
    assert kept(engine) == []


def test_what_a_dead_client_left_is_taken_by_gc(engine: KubernetesEngine, tmp_path: Path) -> None:
    asked = {**jobs.request("say('never')"), "token": "dead"}
    context = json.dumps(engine.context._asdict())
    paths = json.dumps([entry for entry in sys.path if entry])
    here = [context, str(tmp_path / "other"), json.dumps(asked), "made Secret"]
    client = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CLIENT), paths, *here], stdout=subprocess.PIPE
    )
    with client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"here\n"
        client.kill()
    left = jobs.objects(engine)
    assert "ConfigMap/job-dead" in left
    assert "Secret/job-dead" in left
    engine.collect()  # it may be somebody's work yet
    assert jobs.objects(engine) == left
    engine.collect(older_than=0)
    nothing_is_left(engine)
    assert kept(engine) == []


# ---- without our client -------------------------------------------------------------------------

JOB_FILE = f"""\
name: applied
environment: {{image: "{IMAGE}"}}
roles:
  worker:
    replicas: 2
    command: echo up; sleep 600
    resources: {{cpus: 0.1, memory: 64MiB}}
"""


def test_a_manifest_that_was_applied_is_a_job_like_any_other(
    bed: Bed, engine: KubernetesEngine, tmp_path: Path
) -> None:
    folder = work(tmp_path / "work", **{"job.yaml": JOB_FILE.encode()})
    env = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    env |= {f"DROMON_{name}": str(tmp_path / name) for name in ("HOME", "CONFIG", "CACHE")}
    env["NO_COLOR"] = "1"

    def dromon(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "dromon.cli", *words], cwd=folder, env=env, check=False,
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=jobs.PATIENCE,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    settings = (f"namespace={SPACE}", "pull=Never", f"store={engine.context.store}")
    sets = [word for setting in settings for word in ("--set", setting)]
    dromon("context", "add", "bed", "--kubernetes", bed.kubeconfig, *sets)
    manifest = dromon("plan", "job.yaml", "--on", "bed")
    assert dromon("plan", "job.yaml", "--on", "bed") == manifest  # for a repository
    (tmp_path / "manifest.yaml").write_text(manifest)
    applied = bed.kubectl("-n", SPACE, "apply", "-f", str(tmp_path / "manifest.yaml"))
    assert applied.returncode == 0, applied.stderr
    (job,) = engine.jobs.all()
    ref = job["metadata"]["name"]
    jobs.has_said(engine, ref, "up", times=2)
    assert ref in dromon("ps", "--on", "bed")
    assert dromon("logs", ref, "--on", "bed").count("up") == 2
    dromon("stop", ref, "--on", "bed")
    assert jobs.ended(engine, ref).state == "stopped"
    assert jobs.until(lambda: not jobs.processes(ref))
    gone = bed.kubectl("-n", SPACE, "delete", "-f", str(tmp_path / "manifest.yaml"))
    assert gone.returncode == 0, gone.stderr
    assert jobs.until(lambda: not jobs.objects(engine)), jobs.objects(engine)
