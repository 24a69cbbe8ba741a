"""The pages of a job: its master behind YARN's own proxy, its logs while they grow, TensorBoard."""

import contextlib
import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yarnjobs as jobs
from testbeds.yarn.bed import Bed

from dromon.engines.yarn.engine import YarnEngine

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

EVENTS = """
import os, time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter("runs")
for step in range(600):
    value = Summary.Value(tag="loss", simple_value=1 / (step + 1))
    writer.add_event(Event(wall_time=time.time(), step=step, summary=Summary(value=[value])))
    writer.flush()
    time.sleep(1)
"""


@pytest.fixture
def engine(bed: Bed, tmp_path: Path) -> Iterator[YarnEngine]:
    with contextlib.closing(jobs.engine(bed, tmp_path)) as made:
        yield made
        jobs.stop_all(made)


def ask(url: str, method: str = "GET") -> tuple[int, str]:
    """As a browser does it: through the proxy, without a proof of anything."""
    data = b"{}" if method == "POST" else None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, data, method=method), timeout=30) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode(errors="replace")


def test_the_tracking_url_shows_the_job_and_its_growing_log(engine: YarnEngine):
    ref = jobs.run(engine, "say('<b>first</b>'); time.sleep(300)", name="shown")
    jobs.has_said(engine, ref, "<b>first</b>")
    links = engine.show(ref)["links"]
    status, text = ask(links["application"])  # YARN's own page of it
    assert status == 200
    assert jobs.application(engine, ref) in text
    page = links["job"]
    status, text = ask(page)
    assert status == 200
    assert ref in text
    assert "worker-0" in text
    assert ask(f"{page}logs/worker-0.1.log")[1] == "<b>first</b>\n"
    assert json.loads(ask(f"{page}status.json")[1])["state"] == "running"
    assert ask(f"{page}logs/../key")[0] in (400, 404)


def test_a_browser_may_look_and_not_touch(engine: YarnEngine):
    ref = jobs.run(engine, "say('up'); time.sleep(300)", name="kept")
    jobs.has_said(engine, ref, "up")
    page = engine.show(ref)["links"]["job"]
    assert ask(f"{page}stop", "POST")[0] in (403, 405, 500)
    direct = engine.manager.report(jobs.application(engine, ref)).original_tracking_url
    assert ask(f"{direct}stop", "POST")[0] == 403
    assert engine.status(ref).state == "running"


def test_a_failed_application_says_the_error_its_rank_and_its_cause(engine: YarnEngine):
    ref = jobs.run(engine, "if rank == 1: raise ValueError('no such layer')\ntime.sleep(60)",
                   replicas=2, name="broken")  # fmt: skip
    assert jobs.ended(engine, ref).state == "failed"
    report = engine.manager.report(jobs.application(engine, ref))
    assert report.final_status == "FAILED"
    for words in ("ValueError: no such layer", "rank 1", "user_error"):
        assert words in report.diagnostics, report.diagnostics


def test_tensorboard_shows_what_members_write_while_they_write_it(
    engine: YarnEngine, tmp_path: Path
):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text(EVENTS)
    asked = jobs.request(
        name="board",
        command=["python", "train.py"],
        tensorboard="runs",
        resources={"cpus": 1, "memory": "512MiB"},
        environment={"packages": ["tensorboard>=2.20", "setuptools<81"]},
    )
    del asked["data"]["yarn"]
    found = engine.start({**asked, "cwd": str(tmp_path / "code"), "python": sys.executable})
    board = found["links"]["tensorboard"]

    def tags() -> object:
        status, text = ask(f"{board}data/plugin/scalars/tags")
        return json.loads(text) if status == 200 and text.startswith("{") else {}

    assert jobs.until(lambda: "worker-0" in tags() and "loss" in tags()["worker-0"], 400), (  # type: ignore[index]
        jobs.told(engine, str(found["id"]))
    )
    status, text = ask(board)
    assert status == 200
    assert "tb-relative-root" in text
