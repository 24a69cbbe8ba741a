"""What pods are shipped, and what they say when it is not there: within the retries, in words."""

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest
from tests.unit.engines.kubernetes.pod.stage import Stage
from tests.unit.engines.kubernetes.shelf import shelf

from dromon.engines.kubernetes.pod import member
from dromon.engines.kubernetes.pod.places import CODE, ENVIRONMENT, Places


@pytest.fixture
def stage(tmp_path):
    made = Stage(
        tmp_path, roles={"worker": {"command": "true"}}, retries={"max": 1, "backoff": 0}
    )  # fmt: skip
    yield made
    made.close()


def archive(blobs: Path, text: str = "here" * 10_000) -> str:
    """The name of a blob with one file."""
    blobs.mkdir(parents=True, exist_ok=True)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        entry = tarfile.TarInfo("file")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text.encode()))
    name = f"{hashlib.sha256(out.getvalue()).hexdigest()}.tar.gz"
    (blobs / name).write_bytes(out.getvalue())
    return name


def substituted(blobs: Path) -> str:
    """A blob of that name with another whole archive in it."""
    name = archive(blobs)
    (blobs / archive(blobs, "another")).rename(blobs / name)
    return name


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


@pytest.mark.parametrize(("file", "what"), [(CODE, "code"), (ENVIRONMENT, "environment")])
def test_an_archive_that_is_not_the_one_submitted_is_refused_however_whole_it_is(stage, file, what):
    name = substituted(Path(stage.request["store"]["path"], "blobs"))
    stage.artifacts = {file: {"blob": name}}
    stage.start()
    assert stage.code("worker-0") == 201
    message = stage.last_words("worker-0")["verdict"]["message"]
    assert f"the {what} cannot be unpacked: " in message
    assert f"{name} is not what was submitted: its sha256 is " in message


def test_the_archive_that_was_submitted_runs(stage):
    stage.artifacts = {CODE: {"blob": archive(Path(stage.request["store"]["path"], "blobs"))}}
    stage.start()
    assert stage.code("worker-0") == 0


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
    blobs = Path(stage.request["store"]["path"], "blobs")
    name = archive(blobs)
    request = {**stage.request, "artifacts": {ENVIRONMENT: {"blob": name}}}
    Path(at.request).write_text(json.dumps(request))
    whole = (blobs / name).read_bytes()
    (blobs / name).write_bytes(whole[: len(whole) // 2])
    assert member.fetch(at) == 0
    with pytest.raises(OSError, match="the environment cannot be unpacked"):
        member.unpack(request, at)
    (blobs / name).write_bytes(whole)
    member.unpack(request, at)
    assert Path(at.environment, "file").read_text() == "here" * 10_000


def test_archives_of_an_object_store_are_fetched_checked_and_not_kept_twice(tmp_path, stage):
    at = Places(str(tmp_path / "pod"))
    for name in ("request", "run", "secret"):
        Path(at.root, name).mkdir(parents=True)
    name, code = archive(tmp_path / "kept"), archive(tmp_path / "kept", "code")
    artifacts = {ENVIRONMENT: {"blob": name}, CODE: {"blob": code}}
    request = {**stage.request, "artifacts": artifacts, "blobs": "s3://b/al"}
    Path(at.request).write_text(json.dumps(request))
    with shelf() as there:
        for blob in (name, code):
            there.objects[f"al/{blob}"] = (tmp_path / "kept" / blob).read_bytes()
        Path(at.root, "secret/blobs.json").write_text(json.dumps(there.environ))
        assert member.fetch(at) == 0
        assert Path(at.environment, "file").read_text() == "here" * 10_000
        assert sorted(os.listdir(at.run)) == [CODE, "environment"]
        asked = list(there.asked)
        member.bring(request, at)
        member.unpack(request, at)
        assert there.asked == asked  # all of it is here
