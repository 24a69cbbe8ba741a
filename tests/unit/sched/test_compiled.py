"""The wheel as an installer may ask for it: pure, or with a compiled scheduler, which decides the
same and passes the scheduler's own tests."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HERE = Path(__file__).parent
UV = Path(sys.executable).with_name("uv")
# Gangs of three queues come and go on six nodes; what is decided is printed, and some reasons.
SCENARIO = """
import random
from heapq import heappop, heappush
from dromon.sched import events
from dromon.sched.asks import Gpu, RoleAsk
from dromon.sched.cluster import Cluster
from dromon.sched.decide import Preempt, Start, decide
from dromon.sched.explain import explain
from dromon.sched.policies import POLICIES
from dromon.sched.rules import QueueRule, Rules

QUEUES = (QueueRule("q0", limit={"gpus": 24}), QueueRule("q1", weight=2.0), QueueRule("q2"))

for policy in POLICIES:
    lot, ends, runs, now = random.Random(7), [], {}, 0.0
    cluster = Cluster(Rules(queues=QUEUES, policy=policy))
    for n in range(6):
        gpus = tuple(Gpu(str(i)) for i in range(8))
        cluster.apply(events.NodeJoined(f"n{n}", 64, 2**38, gpus))
    for seq in range(60):
        now += lot.expovariate(0.1)
        while ends and ends[0][0] <= now:
            time, id, start = heappop(ends)
            if runs.get(id) == start:
                cluster.apply(events.JobEnded(id, time))
        least = lot.choice((1, 1, 1, 2, 4))
        ask = RoleAsk("worker", least + seq % 2, least, cpus=2.0, gpus=lot.choice((1, 2, 4, 0.5)))
        cluster.apply(
            events.JobSubmitted(f"j{seq}", seq, now, (ask,), seq % 3, True, f"u{seq % 7}",
                                f"q{seq % 3}", max_duration=lot.uniform(10, 900))
        )
        for decision in decide(cluster, now, seq):
            print(policy, decision)
            if isinstance(decision, Start):
                cluster.apply(events.JobStarted(decision.job, decision.placement, now))
                runs[decision.job] = now
                heappush(ends, (now + lot.uniform(5, 600), decision.job, now))
            elif isinstance(decision, Preempt):
                cluster.apply(events.JobReleased(decision.job, now))
                runs.pop(decision.job, None)
    for id in list(cluster.jobs)[-5:]:
        print(policy, explain(cluster, id, now))
"""


def built(folder: Path, compiled: str) -> Path:
    """The wheel, and what lies in it beside it."""
    subprocess.run(
        [UV, "build", "--wheel", "--python", sys.executable, "--out-dir", folder, ROOT],
        env={**os.environ, "DROMON_COMPILE": compiled}, check=True, capture_output=True,
    )  # fmt: skip
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "library")
    return wheel


def run(library: Path, *command: str | Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(library), "DROMON_SCENARIOS": "200"}
    done = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.frameworks
def test_a_plain_wheel_is_pure(tmp_path):
    assert built(tmp_path, "").name.endswith("-py3-none-any.whl")
    assert not list(tmp_path.rglob("*.so"))


@pytest.mark.frameworks
@pytest.mark.timeout(3600)
def test_compiled_the_scheduler_passes_its_own_tests_and_decides_the_same(tmp_path):
    assert "linux" in built(tmp_path, "1").name
    library = tmp_path / "library"
    kind = "from dromon.sched.decide import decide; print(type(decide).__name__)"
    assert run(library, "-c", kind).strip() == "builtin_function_or_method"
    assert run(library, "-c", SCENARIO) == run(ROOT / "src", "-c", SCENARIO)
    few = ["-m", "pytest", "-q", "-n", "2", "-m", "not frameworks", "-p", "no:cacheprovider"]
    run(library, *few, "--rootdir", ROOT, HERE)
