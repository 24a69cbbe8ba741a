"""Who gets what on a real cluster: GPUs, queues, labels, sizes, gangs, and giving it back."""

import getpass
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from testbeds.yarn import ready
from testbeds.yarn.bed import Bed
from testbeds.yarn.plan import GPUS
from yarnjobs import application, ended, has_said, request, run, stop_all, texts, told, until
from yarnjobs import engine as client

from dromon.engines.yarn.engine import YarnEngine
from dromon.errors import Refused

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

HOLD = "say('up'); time.sleep(600)"
GPU_JOB = {"cpus": 1, "memory": "64MiB", "gpus": 1}


def hosts(engine: YarnEngine, ref: str) -> set[str]:
    return {member.host for member in engine.status(ref).members}


def port(bed: Bed, node: str) -> str:
    return f":{bed.plan.ports[node]['rpc']}"


def runs(engine: YarnEngine, ref: str) -> bool:
    return engine.status(ref).state == "running"


def named(engine: YarnEngine, ref: str, *others: str) -> bool:
    """Whether it waits, and is told whom for."""
    why = engine.why(ref)
    return why is not None and set(others) <= set(why.holders)


def refusal(engine: YarnEngine, **job: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        run(engine, HOLD, **job)
    return refused.value


# ---- GPUs, sizes, places ------------------------------------------------------------------------


def test_gpus_are_counted_and_who_waits_is_told_who_has_them(engine: YarnEngine):
    first, second = (run(engine, HOLD, name=n, resources=GPU_JOB) for n in ("one", "two"))
    for ref in (first, second):
        has_said(engine, ref, "up")
    third = run(engine, HOLD, name="three", resources=GPU_JOB)
    assert until(lambda: named(engine, third, first, second)), engine.why(third)
    why = engine.why(third)
    assert why is not None
    assert why.reason == "resources"
    assert first in why.sentence
    assert second in why.sentence
    assert "gpu" in why.sentence.lower()
    assert engine.status(third).state == "queued"
    engine.stop(first, 0)
    has_said(engine, third, "up")
    assert runs(engine, second)


def test_members_get_containers_of_their_own_roles_size(engine: YarnEngine):
    ref = run(
        engine,
        "say(me, os.environ['CONTAINER_ID']); say('up'); time.sleep(600)",
        roles={
            "large": {"replicas": 2, "resources": {"cpus": 3, "memory": "512MiB"}},
            "small": {"replicas": 3, "resources": {"cpus": 1, "memory": "128MiB"}},
            "gpu": {"replicas": 1, "resources": {"cpus": 2, "memory": "256MiB", "gpus": 2}},
        },
    )
    has_said(engine, ref, "up", times=6)
    sizes = {c.id: c.size for c in engine.manager.containers(application(engine, ref), 1)}
    found: dict[str, set[tuple[int, int, int]]] = {}
    for line in texts(engine, ref):
        member, _, container = line.partition(" ")
        if container:
            size = sizes[container]
            seen = (size.memory, size.vcores, size.others.get("yarn.io/gpu", 0))
            found.setdefault(member.rpartition("-")[0], set()).add(seen)
    # The agent's own 64 MB are added to each.
    assert found == {"large": {(576, 3, 0)}, "small": {(192, 1, 0)}, "gpu": {(320, 2, GPUS)}}


def test_a_node_label_says_where_members_run(place: Bed, engine: YarnEngine):
    place.label("node2", "gpu")
    try:
        assert until(lambda: any(node.labels for node in engine.manager.nodes()))
        inside = run(engine, HOLD, replicas=2, node_label="gpu")
        outside = run(engine, HOLD, replicas=2)
        for ref in (inside, outside):
            has_said(engine, ref, "up", times=2)
        assert {h[h.rfind(":") :] for h in hosts(engine, inside)} == {port(place, "node2")}
        assert {h[h.rfind(":") :] for h in hosts(engine, outside)} == {port(place, "node1")}
        wrong = refusal(engine, node_label="fast")
        assert "label 'fast'" in wrong.message
        beyond = refusal(engine, node_label="gpu", resources={"cpus": 1, "gpus": GPUS + 1})
        assert f"{GPUS + 1} GPUs" in beyond.message
        without = refusal(engine, resources={"cpus": 1, "gpus": 1})
        assert "1 GPU" in without.message  # all of them are behind the label
    finally:
        stop_all(engine)
        place.label("node2", "")
        assert until(lambda: not any(node.labels for node in engine.manager.nodes()))


def test_members_that_spread_have_a_node_each(engine: YarnEngine):
    ref = run(engine, HOLD, replicas=2, spread="node")
    has_said(engine, ref, "up", times=2)
    assert len(hosts(engine, ref)) == 2, told(engine, ref)
    assert "node" in refusal(engine, replicas=3, spread="node").message


def test_members_run_on_the_host_that_their_role_names(place: Bed, engine: YarnEngine):
    # They would spread over both by themselves.
    named = {"hosts": [f"localhost{port(place, 'node1')}"], "strict": True}
    ref = run(engine, HOLD, replicas=4, yarn={"roles": {"worker": named}})
    has_said(engine, ref, "up", times=4)
    assert {h[h.rfind(":") :] for h in hosts(engine, ref)} == {port(place, "node1")}


# ---- what can never be --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"resources": {"cpus": 1, "memory": "64GiB"}}, ("65600 MB", "6144 MB")),
        ({"resources": {"cpus": 99}}, ("99 CPUs", "8 CPUs")),
        ({"resources": {"cpus": 1, "gpus": 8}}, ("8 GPUs", "2 GPUs")),
        ({"yarn": {"resources": {"yarn.io/fpga": 1}}}, ("1 yarn.io/fpga",)),
        ({"replicas": 5, "resources": {"cpus": 1, "memory": "3GiB"}}, ("gang", "12288 MB")),
        ({"replicas": 2, "resources": {"cpus": 1, "gpus": 2}}, ("gang", "4 GPUs", "2 GPUs")),
        ({"replicas": 3, "resources": {"cpus": 8}}, ("gang", "24 CPUs", "16 CPUs")),
    ],
)
def test_what_can_never_fit_is_refused_at_once_with_the_reason(
    engine: YarnEngine, job: dict[str, Any], words: tuple[str, ...]
):
    before = engine.staging.records()
    refused = refusal(engine, **job)
    for word in words:
        assert word in refused.message, refused.message
    assert refused.hint
    assert engine.staging.records() == before  # nothing of it is on HDFS


def home_on_hdfs(bed: Bed, user: str) -> None:
    where = f"{bed.plan.web('namenode')}/webhdfs/v1/user/{user}?user.name={getpass.getuser()}"
    ready.send("PUT", f"{where}&op=MKDIRS")
    ready.send("PUT", f"{where}&op=SETOWNER&owner={user}")


def dead_end(bed: Bed, folder: Path) -> Path:
    """The bed's configuration, but the ResourceManager is down."""
    shutil.copytree(bed.plan.conf(), folder)
    site = folder / "yarn-site.xml"
    there = bed.plan.address("resourcemanager", "client")
    site.write_text(site.read_text().replace(there, "127.0.0.1:9"))
    return folder


@pytest.mark.parametrize(
    ("user", "queue", "where", "code", "words"),
    [
        ("root", "resaerch", "", 65, ("queue resaerch", "Did you mean research?")),
        ("root", "closed", "", 65, ("queue closed is stopped", "Use another queue")),
        ("alice", "urgent", "", 65, ("alice may not", "queue")),
        ("root", "default", "127.0.0.1:9", 69, ("127.0.0.1:9",)),
        ("root", "default", "down", 69, ("127.0.0.1:9", "check it")),
        ("root", "default", "http://no-such-host.invalid:8088", 69, ("no-such-host.invalid",)),
    ],
)
def test_a_submit_that_cannot_be_is_one_message_with_a_hint(
    place: Bed, engine: YarnEngine, tmp_path: Path, user: str, queue: str, where: str, code: int,
    words: tuple[str, ...],
):  # fmt: skip
    home_on_hdfs(place, "alice")
    if where == "down":
        where = str(dead_end(place, tmp_path / "conf"))
    context = {"kind": "yarn", "where": where or place.plan.conf()}
    (tmp_path / "contexts.json").write_text(json.dumps({"contexts": {"there": context}}))
    (tmp_path / "job.yaml").write_text(json.dumps(request(name="job", command="true")["data"]))
    env = {
        **os.environ, "DROMON_HOME": str(tmp_path / "home"), "DROMON_CONFIG": str(tmp_path),
        "HADOOP_USER_NAME": user, "NO_COLOR": "1",
    }  # fmt: skip
    asked = [sys.executable, "-m", "dromon.cli", "run", "job.yaml", "--on", "there"]
    done = subprocess.run(
        [*asked, "--queue", queue], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=170,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    said = done.stderr.splitlines()
    assert len(said) == 2, done.stderr  # what, and what to do about it
    for word in words:
        assert word in done.stderr, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "Exception" not in done.stderr


def test_another_user_sees_and_stops_what_the_job_lets_him(
    place: Bed, engine: YarnEngine, home: Path
):
    for user in ("alice", "bob", "carol"):
        home_on_hdfs(place, user)
    alice, bob, carol = (client(place, home, user=user) for user in ("alice", "bob", "carol"))
    ref = run(engine, HOLD, acls={"view": ["alice"], "modify": ["bob"]})
    has_said(engine, ref, "up")
    assert alice.status(ref).user == "root"
    for user in (alice, carol):
        with pytest.raises(Refused) as refused:
            user.stop(ref)
        assert f"{user.cluster.user} may not" in refused.value.message
    assert runs(engine, ref)
    app = application(engine, ref)
    assert alice.manager.report(app).diagnostics is not None
    assert alice.manager.report(app).queue
    assert not carol.manager.report(app).tracking_url.startswith("http")  # YARN tells him little
    bob.stop(ref)
    assert ended(engine, ref).state == "stopped"
    for user in (alice, bob, carol):
        user.close()


# ---- queues and priorities ----------------------------------------------------------------------


def test_the_more_urgent_of_two_that_wait_in_a_queue_goes_first(engine: YarnEngine):
    # Whatever is not for masters is taken.
    filler = run(engine, HOLD, replicas=2, spread="node", queue="research",
                 resources={"cpus": 1, "memory": "4900MiB"})  # fmt: skip
    has_said(engine, filler, "up", times=2)
    big = {"replicas": 2, "spread": "node", "resources": {"cpus": 1, "memory": "4000MiB"}}
    low = run(engine, HOLD, name="low", queue="research", priority="low", **big)
    high = run(engine, HOLD, name="high", queue="research", priority="high", **big)
    assert until(lambda: named(engine, low, filler) and named(engine, high, filler))
    assert (engine.status(low).priority, engine.status(high).priority) == (1, 9)
    assert engine.status(high).queue == "research"
    engine.stop(filler, 0)
    has_said(engine, high, "up", times=2)
    assert engine.status(low).state == "queued"
    engine.stop(high, 0)
    has_said(engine, low, "up", times=2)


SAVING = """
def save(*_):
    time.sleep(1.5)
    with open(path(f"saved-{rank}"), "w") as file:
        file.write("step 7")
    say("saved with", os.environ["DROMON_GRACE"])
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
found = sorted(n for n in os.listdir(os.environ["DROMON_CHECKPOINT_DIR"]) if n.startswith("saved"))
say("in", attempt, os.environ["CONTAINER_ID"])
say("up", attempt, *found)
while attempt == 1:
    time.sleep(0.1)
say("read", open(path("saved-0")).read())
"""


# Five of these fill a node but for the masters, so that what is given back is what is needed.
FIFTH = {"cpus": 1, "memory": "1088MiB"}
OVER: dict[str, Any] = {"replicas": 10, "queue": "research", "resources": FIFTH}
OWED: dict[str, Any] = {"replicas": 3, "queue": "urgent", "resources": FIFTH}


@pytest.mark.parametrize("shared", [True, False], ids=["shared directory", "through HDFS"])
def test_a_queue_takes_its_share_back_and_the_job_resumes_from_its_checkpoint(
    place: Bed, engine: YarnEngine, home: Path, tmp_path: Path, shared: bool
):
    owner = client(place, home, shared=str(tmp_path) if shared else "")
    ref = run(
        owner, SAVING, retries={"max": 0}, stop_grace="60s", yarn={"patience": {"hold": 60}}, **OVER
    )
    has_said(owner, ref, "up 1", times=10)
    taker = run(engine, HOLD, **OWED)
    has_said(engine, taker, "up", times=3)
    assert until(lambda: owner.status(ref).state == "queued"), told(owner, ref)
    engine.stop(taker, 0)
    status = ended(owner, ref)
    assert status.state == "succeeded", told(owner, ref)
    assert status.attempt == 2
    said = texts(owner, ref)
    # Warned, with the time that the cluster leaves; and every one of them has saved.
    assert said.count(f"saved with {owner.target.preemption_wait:g}") == 10, told(owner, ref)
    files = " ".join(f"saved-{n}" for n in range(10))
    assert said.count(f"up 2 {files}") == 10, told(owner, ref)
    assert said.count("read step 7") == 10
    # All that it had was given back, not only what was asked for.
    places = [text.split() for text in said if text.startswith("in ")]
    before, after = ({where for _, n, where in places if n == number} for number in "12")
    assert len(before) == len(after) == 10
    assert not before & after
    standing = owner._standing(owner._report(ref))
    assert standing is not None
    assert standing["retries_used"] == 0
    owner.close()


def test_who_does_no_work_is_given_back_first(engine: YarnEngine):
    # YARN's reckoning of who is owed what goes by the kind of which most is free: not by GPUs here.
    gpus = run(engine, HOLD, name="gpus", queue="kept", resources={**GPU_JOB, "gpus": GPUS})
    has_said(engine, gpus, "up")
    ref = run(
        engine,
        queue="research",
        retries={"max": 0},
        roles={
            "busy": {
                "replicas": 2,
                "resources": FIFTH,
                "command": ["bash", "-c", "echo up $DROMON_ATTEMPT; exec sleep 600"],
            },
            "done": {
                "replicas": 8,
                "resources": FIFTH,
                "command": ["bash", "-c", "echo done"],
            },
        },
    )
    has_said(engine, ref, "done", times=8)
    has_said(engine, ref, "up 1", times=2)
    report = engine.manager.report(application(engine, ref))
    assert report.containers == 11  # those that are done keep theirs for a restart
    has_said(engine, run(engine, HOLD, **{**OWED, "replicas": 1}), "up")
    assert engine.manager.report(application(engine, ref)).containers < 11
    assert runs(engine, ref)
    assert engine.status(ref).attempt == 1
    busy = [m for m in engine.status(ref).members if m.member.startswith("busy")]
    assert [m.state for m in busy] == ["up"] * 2, told(engine, ref)
