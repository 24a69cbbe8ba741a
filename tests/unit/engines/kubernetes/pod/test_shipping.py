"""What pods are shipped, and what they say when it is not there: within the retries, in words."""

import json
import tarfile
from pathlib import Path

import pytest
from tests.unit.engines.kubernetes.pod.stage import Stage

from dromon.engines.kubernetes.pod import member
from dromon.engines.kubernetes.pod.places import CODE, ENVIRONMENT, Places


@pytest.fixture
def stage(tmp_path):
    made = Stage(
        tmp_path, roles={"worker": {"command": "true"}}, retries={"max": 1, "backoff": 0}
    )  # fmt: skip
    yield made
    made.close()


def archive(folder: Path, name: str) -> None:
    (folder / "content").mkdir(parents=True, exist_ok=True)
    (folder / "content" / "file").write_text("here" * 10_000)
    with tarfile.open(folder / name, "w:gz") as tar:
        tar.add(folder / "content", arcname=".")


def test_an_environment_that_is_not_in_the_store_is_the_verdict_after_the_retries(stage):
    stage.artifacts = {ENVIRONMENT: {"blob": "gone.tar.gz"}}
    stage.start()
    assert stage.code("worker-0") == 201
    verdict = stage.last_words("worker-0")["verdict"]
    assert "the environment is not in the store: " in verdict["message"]
    assert verdict["message"].endswith("gone.tar.gz, after 1 retry")


def test_a_job_does_not_run_without_the_code_it_was_submitted_with(stage):
    stage.artifacts = {CODE: {"blob": "gone.tar.gz"}}
    stage.start()
    assert stage.code("worker-0") == 201
    assert "the code is not in the store" in stage.last_words("worker-0")["verdict"]["message"]


@pytest.mark.faults
def test_a_pod_that_cannot_begin_ends_the_job_in_words(stage):
    stage.checkpoints = "/proc/nowhere"
    stage.start()
    assert stage.code("worker-0") == 201
    said = stage.last_words("worker-0")["exit"]
    assert (said["cause"], said["message"][:22]) == ("internal", "the pod cannot begin: ")


def test_the_init_container_never_fails_and_what_it_left_half_done_is_done_anew(tmp_path, stage):
    at = Places(str(tmp_path / "pod"))
    for name in ("request", "run"):
        Path(at.root, name).mkdir(parents=True)
    request = {**stage.request, "artifacts": {ENVIRONMENT: {"blob": "env.tar.gz"}}}
    Path(at.request).write_text(json.dumps(request))
    blobs = Path(request["store"]["path"], "blobs")
    archive(blobs, "env.tar.gz")
    whole = (blobs / "env.tar.gz").read_bytes()
    (blobs / "env.tar.gz").write_bytes(whole[: len(whole) // 2])
    assert member.fetch(at) == 0
    with pytest.raises(OSError, match="the environment cannot be unpacked"):
        member.unpack(request, at)
    (blobs / "env.tar.gz").write_bytes(whole)
    member.unpack(request, at)
    assert Path(at.environment, "file").read_text() == "here" * 10_000
