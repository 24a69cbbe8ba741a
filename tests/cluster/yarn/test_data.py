"""What a job is given beside its code: volumes, configuration, secrets, tokens, a function."""

import contextlib
import json
import os
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yarnjobs as jobs
from testbeds.yarn.bed import Bed

import dromon
from dromon.engines.yarn.engine import YarnEngine
from dromon.errors import Refused

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dromon-", dir="/tmp") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def engine(bed: Bed, home: Path) -> Iterator[YarnEngine]:
    found = jobs.engine(bed, home)
    yield found
    found.close()


def said(engine: YarnEngine, ref: str) -> list[Any]:
    status = jobs.ended(engine, ref)
    assert status.state == "succeeded", jobs.told(engine, ref)
    return [json.loads(text) for text in jobs.texts(engine, ref)]


# ---- volumes ------------------------------------------------------------------------------------


def test_volumes_are_copied_once_to_a_node_or_scratch_or_an_address(engine):
    engine.hdfs.write("/tmp/set/first.txt", b"first")
    engine.hdfs.write("/tmp/set/deep/second.txt", b"second")
    script = """
        data, work = os.environ["DROMON_VOLUME_DATA"], os.environ["DROMON_VOLUME_WORK"]
        with open(os.path.join(work, "mine"), "x") as file:
            file.write(me)
        first = os.stat(os.path.join(data, "first.txt"))
        say(json.dumps({
            "node": os.environ["LOCAL_DIRS"], "inode": first.st_ino, "mode": first.st_mode,
            "second": open(sys.argv[1]).read(), "alone": os.listdir(work), "work": work,
            "far": os.environ["DROMON_VOLUME_FAR"], "words": sys.argv[2:],
        }))
    """
    asked = jobs.request(
        script,
        replicas=4,
        volumes={
            "data": {"source": "hdfs:///tmp/set", "access": "copy"},
            "work": {"source": "node"},
            "far": {"source": "s3://bucket/set", "access": "url"},
        },
    )
    asked["data"]["command"] += ["${volumes.data}/deep/second.txt", "${volumes.far}/x", "$${HOME}"]
    found = said(engine, jobs.start(engine, asked))
    assert len(found) == 4
    copies = {(each["node"], each["inode"]) for each in found}
    assert len(copies) == len({each["node"] for each in found})  # one for all of a node
    assert not any(stat.S_IMODE(each["mode"]) & 0o222 for each in found)
    assert {each["second"] for each in found} == {"second"}
    assert len({each["work"] for each in found}) == 4
    assert all(each["alone"] == ["mine"] for each in found)
    assert {each["far"] for each in found} == {"s3://bucket/set"}
    assert found[0]["words"] == ["s3://bucket/set/x", "${HOME}"]


def test_volume_that_is_not_on_hdfs_ends_the_job_and_says_so(engine):
    volumes = {"data": {"source": "hdfs:///tmp/nowhere", "access": "copy"}}
    status = jobs.ended(engine, jobs.run(engine, "say('up')", volumes=volumes))
    assert status.state == "failed"
    assert "/tmp/nowhere is not on HDFS" in json.dumps(status.verdict)
    elsewhere = {"data": {"source": "hdfs://other:8020/x", "access": "copy"}}
    with pytest.raises(Refused, match="own HDFS"):
        jobs.run(engine, "", volumes=elsewhere)


# ---- configuration and secrets ------------------------------------------------------------------


def test_secret_reaches_the_members_and_nothing_else(engine, bed, home):
    """Its words are looked for on the nodes, in HDFS's blocks and in every log."""
    canary, began = f"canary{secrets.token_hex(8)}", time.time()
    script = """
        with open(os.environ["DROMON_CONFIG"]) as file:
            config = json.load(file)
        say(json.dumps({"length": len(os.environ["TOKEN"]), "null": len(os.environ["NULL"]),
                        "config": config}))
        while not os.path.exists(config["go"]):
            time.sleep(0.1)
    """
    go = str(home / "go")
    asked = jobs.request(
        script, replicas=2, secrets=["TOKEN"], env={"NULL": None}, config={"go": go, "lr": 0.5}
    )
    asked["environ"] |= {"TOKEN": canary, "NULL": f"{canary}-too"}
    ref = jobs.start(engine, asked)

    def lines() -> bool:
        return len(jobs.texts(engine, ref)) == 2 or engine.status(ref).is_terminal

    assert jobs.until(lines), jobs.told(engine, ref)
    running = files_with(canary, began, bed.dir, home)
    Path(go).touch()
    found = said(engine, ref)
    assert {(each["length"], each["null"]) for each in found} == {(22, 26)}
    assert found[0]["config"] == {"go": go, "lr": 0.5}
    # While it runs: the credentials that YARN hands over, and what the agent starts from.
    assert running
    assert {path.name for path in running if path.suffix != ".tokens"} <= {
        "container_tokens", "secret",
    }  # fmt: skip
    assert not any(path.stat().st_mode & 0o077 for path in running if path.exists())
    # Afterwards YARN clears up, and collects the logs.
    assert jobs.until(lambda: not files_with(canary, began, bed.dir, home)), files_with(
        canary, began, bed.dir
    )
    assert not any(canary in text for text in jobs.texts(engine, ref))


def files_with(text: str, since: float, *places: Path | str) -> list[Path]:
    """Among all that anybody touched since then; other tests have left gigabytes."""
    found = []
    for place in places:
        for path in Path(place).rglob("*"):
            try:
                status = path.lstat()
                is_new = stat.S_ISREG(status.st_mode) and status.st_ctime >= since - 1
                if is_new and text.encode() in path.read_bytes():
                    found.append(path)
            except OSError:
                continue  # gone meanwhile
    return found


# ---- functions ----------------------------------------------------------------------------------


class Odd(Exception):
    """Of the program's own."""


@pytest.fixture
def on_yarn(bed: Bed, home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("HADOOP_CONF_DIR", bed.plan.conf())
    monkeypatch.setenv("DROMON_HOME", str(home))
    return {
        "on": "yarn", "memory": "128MiB", "cpus": 1,
        "yarn": {"python": sys.executable, "master": {"memory": 128}},
    }  # fmt: skip


def test_function_gives_what_each_rank_returned(on_yarn: dict[str, Any]):
    scale = 10

    def work(start: int, *, step: int) -> tuple[int, str]:
        here = dromon.context()
        return start + step * here.rank * scale, os.environ["CONTAINER_ID"]

    run = dromon.run(work, args=[1], kwargs={"step": 2}, workers=2, **on_yarn)
    numbers, containers = zip(*run.results(timeout=jobs.PATIENCE), strict=True)
    assert numbers == (1, 21)
    assert len(set(containers)) == 2
    assert run.result()[0] == 1


def test_exception_of_a_function_is_raised_here(on_yarn: dict[str, Any]):
    def work() -> None:
        if dromon.context().rank == 1:
            raise Odd("rank 1 said no", 7)

    with pytest.raises(Odd, match="rank 1 said no") as raised:
        dromon.run(work, workers=2, **on_yarn).results(timeout=jobs.PATIENCE)
    assert raised.value.args == ("rank 1 said no", 7)
    assert "in work" in "".join(raised.value.__notes__)


def test_an_unchanged_job_uploads_nothing(bed: Bed, tmp_path: Path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "data.bin").write_bytes(os.urandom(1 << 20))
    sent = []
    for _ in range(2):
        with contextlib.closing(jobs.engine(bed, tmp_path / "home")) as engine:
            asked = jobs.request("say(os.path.getsize('data.bin'))", name="twice")
            found = engine.start({**asked, "cwd": str(tmp_path / "code")})
            sent.append(engine.staging.uploaded)
            ref = str(found["id"])
            assert jobs.ended(engine, ref).state == "succeeded", jobs.told(engine, ref)
            assert jobs.texts(engine, ref) == [str(1 << 20)]
    assert sent[0] > 1 << 20
    assert sent[1] == 0
