"""What a cluster lacks, does not allow or cannot answer: said in words, and nothing hangs."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import jobs
import pytest
from sickly import HANGS_UP, Sickly
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import IMAGE

from dromon.engines.base import token
from dromon.engines.kubernetes.engine import KubernetesEngine
from dromon.engines.kubernetes.pod.places import CODE
from dromon.engines.kubernetes.refusals import Invalid, NotAllowed, NotAuthenticated, NotFound
from dromon.errors import DromonError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def alice(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesEngine]:
    """A user as there are many."""
    made = jobs.engine(bed, tmp_path_factory.mktemp("alice"), user="alice")
    yield made
    jobs.stop_all(made)
    made.close()


# ---- what is not there --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ({"environment": {"image": "dromon.test/nothing:1"}}, "dromon.test/nothing:1"),
        ({"secrets": ["TOKEN"], "kubernetes": {"secret": "no-such-secret"}}, "no-such-secret"),
        ({"volumes": {"data": {"source": "pvc:no-such-claim"}}}, "no-such-claim"),
    ],
    ids=["image", "secret", "volume"],
)
def test_what_is_missing_is_named_and_the_job_can_be_stopped(
    alice: KubernetesEngine, job: dict[str, object], words: str
) -> None:
    ref = jobs.run(alice, "say('never')", **job)
    jobs.reason(alice, ref, words)
    assert alice.stop_ref(ref)["active"]
    status = jobs.ended(alice, ref)
    assert (status.state, (status.verdict or {})["cause"]) == ("stopped", "stopped"), status
    assert jobs.texts(alice, ref) == []
    alice.remove([ref])


def test_code_that_somebody_exchanged_in_the_store_does_not_run(bed: Bed, tmp_path: Path) -> None:
    """While the job waits, by another archive that is as whole as it was."""
    # Jobs that no node takes yet are let in.
    engine = jobs.engine(bed, tmp_path / "home", user="alice", properties={"nodes.grow": "yes"})
    label, work = f"example.com/{token()}", tmp_path / "work"
    work.mkdir()

    def waits(text: str) -> tuple[str, str]:
        """A job for a node with the label, and the blob of its code."""
        (work / "train.py").write_text(jobs.PREAMBLE + text)
        pod = {"pod": {"nodeSelector": {label: "yes"}}}
        asked = jobs.request(command="python3 train.py", kubernetes=pod)
        os.rmdir(asked["cwd"])
        ref = str(engine.start({**asked, "cwd": str(work)})["id"])
        return ref, str(engine.request_of(ref)["artifacts"][CODE]["blob"])

    (ref, ours), (other, theirs) = waits("say('ours')"), waits("say('theirs')")
    engine.stop_ref(other)
    assert engine.store is not None
    blobs = Path(engine.store.root, "blobs")
    (blobs / theirs).replace(blobs / ours)
    assert bed.kubectl("label", "node", "node1", f"{label}=yes").returncode == 0
    status = jobs.ended(engine, ref)
    assert status.state == "failed", jobs.told(engine, ref)
    said = (status.verdict or {})["message"]
    assert f"{ours} is not what was submitted: its sha256 is {theirs.partition('.')[0]}" in said
    assert jobs.texts(engine, ref) == []
    (blobs / ours).unlink()
    assert bed.kubectl("label", "node", "node1", f"{label}-").returncode == 0
    jobs.ended(engine, other)
    engine.remove([ref, other])
    engine.close()


def refused(engine: KubernetesEngine, kind: type[DromonError], **job: object) -> str:
    """Its words; and nothing was made."""
    before = set(jobs.objects(engine))
    with pytest.raises(kind) as found:
        jobs.run(engine, "say('never')", **job)
    made = {one for one in set(jobs.objects(engine)) - before if "dromon-light" not in one}
    assert not made
    assert found.value.hint
    return found.value.message


def test_an_unknown_queue_is_refused_with_those_there_are(alice: KubernetesEngine) -> None:
    said = refused(alice, DromonError, queue="nowhere")
    assert "nowhere" in said


def test_a_webhook_denies_in_its_own_words(alice: KubernetesEngine) -> None:
    said = refused(alice, Invalid, kubernetes={"job": {"minAvailable": 5}})
    assert said.startswith("validatejob.volcano.sh denies it: ")
    assert "minAvailable" in said


def test_a_namespace_that_is_not_there_is_said_to_be_missing(bed: Bed, tmp_path: Path) -> None:
    engine = jobs.engine(bed, tmp_path, namespace="nowhere")
    with pytest.raises(NotFound) as found:
        jobs.run(engine, "say('never')")
    assert found.value.message == "there is no namespace nowhere"
    assert found.value.hint
    engine.close()


def test_a_quota_that_is_used_up_is_named_and_the_job_runs_when_it_is_raised(
    bed: Bed, tmp_path: Path
) -> None:
    with jobs.namespace(bed, "narrow") as narrow:
        made = bed.kubectl("-n", narrow, "create", "quota", "tight", "--hard=pods=1")
        assert made.returncode == 0, made.stderr
        engine = jobs.engine(bed, tmp_path, namespace=narrow)
        ref = jobs.run(engine, "say('ran')", roles=jobs.TWO)
        jobs.reason(engine, ref, "quota tight")
        patch = json.dumps({"spec": {"hard": {"pods": "9"}}})
        assert bed.kubectl("-n", narrow, "patch", "quota", "tight", "-p", patch).returncode == 0
        assert jobs.ended(engine, ref).state == "succeeded"
        assert jobs.texts(engine, ref) == ["ran", "ran"]
        engine.close()


# ---- who may not --------------------------------------------------------------------------------


def test_who_may_do_nothing_is_told_which_rule_lacks(bed: Bed, tmp_path: Path) -> None:
    bob = jobs.engine(bed, tmp_path, user="bob")
    with pytest.raises(NotAllowed) as found:
        jobs.run(bob, "say('never')")
    assert found.value.message.startswith("bob may not ")
    assert "bound to bob" in str(found.value.hint)
    bob.close()


JOB_FILE = f"""\
name: job
environment: {{image: "{IMAGE}"}}
command: echo never
"""


@pytest.mark.parametrize(
    "words", [("run", "job.yaml"), ("ps",), ("logs", "job-aaaaaa"), ("stop", "job-aaaaaa")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_the_command_says_so_in_one_message(
    bed: Bed, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "job.yaml").write_text(JOB_FILE)
    done = jobs.command(tmp_path, bed.kubeconfig_of("bob"), *words, "--on", "kubernetes")
    said = done.stderr
    assert done.returncode == 69, (done.returncode, done.stdout, said)
    assert "bob may not " in said
    assert "verbs: [" in said
    assert said.count("bob may not ") == 1
    assert "Traceback" not in said


@pytest.mark.parametrize("token", ["not-a-token", ""], ids=["wrong", "none"])
def test_a_token_that_is_not_accepted_is_said_to_be_none(
    bed: Bed, tmp_path: Path, token: str
) -> None:
    config = json.loads(Path(bed.kubeconfig_of("bob")).read_text())
    config["users"][0]["user"] = {"token": token} if token else {}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    engine = jobs.engine(bed, tmp_path, image=IMAGE)
    engine.context = engine.context._replace(where=str(tmp_path / "kubeconfig"))
    with pytest.raises(NotAuthenticated) as found:
        jobs.run(engine, "say('never')")
    assert "does not know who you are" in found.value.message
    assert found.value.hint
    engine.close()


# ---- a server that is ill -----------------------------------------------------------------------


@pytest.fixture
def sickly(bed: Bed, tmp_path: Path) -> Iterator[Sickly]:
    made = Sickly(bed.kubeconfig, tmp_path)
    yield made
    made.close()


def test_a_submit_and_a_watch_get_through_a_server_that_is_ill(
    bed: Bed, sickly: Sickly, tmp_path: Path
) -> None:
    engine = jobs.engine(bed, tmp_path)
    engine.context = engine.context._replace(where=sickly.kubeconfig)
    refs: list[str] = []
    codes = (429, 500, HANGS_UP, 503)

    def submit() -> None:
        refs.append(jobs.run(engine, jobs.BEATS, roles=jobs.TWO))

    def endure() -> None:
        assert jobs.until(lambda: all(sickly.counts.get(code, 0) > 1 for code in codes), every=0.02)

    submitting = threading.Thread(target=submit)
    while not refs:  # well for a moment, ill for some answers: whatever it was about to do
        if not submitting.is_alive():
            submitting = threading.Thread(target=submit)
            submitting.start()
        with sickly.ill(*codes):
            time.sleep(0.15)
        time.sleep(0.3)
    submitting.join(jobs.PATIENCE)
    assert len(refs) == 1
    jobs.beats_on(engine, refs[0], "worker-0", "worker-1")
    seen: list[str] = []
    watching = threading.Thread(target=lambda: seen.extend(s.state for s in engine.watch(refs[0])))
    watching.start()
    assert jobs.until(lambda: seen)
    sickly.counts.clear()
    with sickly.ill(*codes):
        endure()
    jobs.let_go(engine, refs[0])
    watching.join(jobs.PATIENCE)
    assert seen[-1] == "succeeded"
    assert len([s for s in engine.jobs.all() if s["metadata"]["name"] == refs[0]]) == 1
    engine.remove(refs)
    engine.close()
