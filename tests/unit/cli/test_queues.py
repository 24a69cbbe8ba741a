"""`dromon queues`, `queue`, `node` and `report`: what an administrator types and sees."""

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from fake_api import FakeApi, FakeJob, make_status

from dromon.cli.commands.queues import bar
from dromon.cli.main import main
from dromon.engines.base import Waiting
from dromon.engines.local.journal import Spell
from dromon.engines.local.report import report
from dromon.errors import JobFileError, Problem


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def dromon(api: FakeApi, capfd: pytest.CaptureFixture[str], monkeypatch) -> Callable[..., Any]:
    monkeypatch.delenv("DROMON_ON", raising=False)

    def call(*words: str, code: int = 0) -> Any:
        assert main(list(words), api=api) == code
        return capfd.readouterr()

    return call


def view(name: str, parent: str | None, used: float, owed: float, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "parent": parent, "open": True, "weight": 1.0, "limit": {},
        "deserved": {"gpus": owed, "cpus": 8.0}, "guarantee": {}, "usage": {"gpus": used},
        "share": 0.0, "running": 1, "queued": 0, "users": [], **more,
    }  # fmt: skip


def test_queues_of_this_machine_are_a_tree_with_bars(api, dromon):
    ann = {"name": "ann", "usage": {"gpus": 6.0}, "share": 1.0, "running": 2, "queued": 3}
    api.box.views = [
        view("root", None, 6, 8, total={"gpus": 8.0, "cpus": 8.0}),
        view("lab", "root", 6, 4, users=[]),
        view("vision", "lab", 6, 4, users=[ann], limit={"gpus": 6.0}, queued=3),
        view("product", "root", 0, 4, open=False, running=0),
    ]
    api.box.notes = ["something to know"]
    assert dromon("queues").out.splitlines() == [
        "QUEUE       USE                   GPUS  DESERVED  LIMIT  RUNNING  QUEUED  STATE",
        "all         ███████████████▒▒▒▒▒     6         8      -        1       0",
        "  lab       ██████████▓▓▓▓▓░░░░░     6         4      -        1       0",
        "    vision  ██████████▓▓▓▓▓░░░░░     6         4      6        1       3",
        "      ann                            6                         2       3",
        "  product   ▒▒▒▒▒▒▒▒▒▒░░░░░░░░░░     0         4      -        0       0  drained",
        "note: something to know",
    ]
    assert json.loads(dromon("queues", "-o", "json").out)[2]["users"][0]["name"] == "ann"


@pytest.mark.parametrize(
    ("used", "owed", "whole", "drawn"),
    [
        (0, 0, 0, "░" * 20),
        (8, 8, 8, "█" * 20),
        (9, 1, 8, "█" * 2 + "▓" * 18),  # never longer than the machine
        (0, 2, 8, "▒" * 5 + "░" * 15),
    ],
)
def test_a_bar_is_the_whole_machine(used, owed, whole, drawn):
    assert bar(used, owed, whole) == drawn


# ---- changing -----------------------------------------------------------------------------------


def test_a_queue_is_changed_as_typed(api, dromon):
    api.box.notes = ["mind this"]
    err = dromon("queue", "set", "research", "limit.gpus=4", "max_duration=2h").err
    assert api.box.calls == [("set", "research", ["limit.gpus=4", "max_duration=2h"])]
    assert err.splitlines() == [
        "dromon: queue research is changed (version 7 of the rules)",
        "note: mind this",
    ]
    assert "queue research is drained" in dromon("queue", "drain", "research").err
    assert "queue research is open" in dromon("queue", "open", "research").err
    assert "queue research is removed" in dromon("queue", "rm", "research").err
    assert json.loads(dromon("queue", "drain", "a", "-o", "json").out)["version"] == 7


def test_every_problem_of_a_change_is_told(api, dromon):
    problems = [
        Problem("queue a", 1, 1, "queues.a.weight", "expected at least 1"),
        Problem("queue a", 1, 1, "queues.a.limt", "unknown key", "did you mean limit?"),
    ]
    api.box.error = JobFileError(problems)
    assert dromon("queue", "set", "a", "weight=0", code=64).err.splitlines() == [
        "queues.a.weight: expected at least 1",
        "queues.a.limt: unknown key; did you mean limit?",
        "dromon: nothing was changed",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["queue", "set"], "which queue?"),
        (["queue", "set", "a"], "what is to be set?"),
        (["queue", "drain", "a", "b=1"], "what is 'b=1'?"),
        (["queue", "close", "a"], "invalid choice"),
        (["node", "reboot"], "invalid choice"),
        (["report", "-o", "report.pdf"], "expected json, or a file ending in .html or .svg"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_line(api, dromon, words, said):
    assert said in dromon(*words, code=64).err
    assert api.box.calls == []


def test_history_says_who_when_and_what(api, dromon):
    def version(number: int, user: str, what: str) -> dict[str, Any]:
        past = time.time() - 7200
        return {"version": number, "time": past, "user": user, "what": what, "site": {}}

    api.box.versions = [
        version(2, "ann", "queue a: queues.a.limit.gpus: 4 -> 2"),
        version(1, "", "the site file: queues: - -> {b: {}}"),
    ]
    lines = dromon("queue", "history").out.splitlines()
    assert re.fullmatch(r" +2  2h00m  ann  queue a: queues.a.limit.gpus: 4 -> 2", lines[1])
    assert "  -    the site file" in lines[2]
    assert len(dromon("queue", "history", "a").out.splitlines()) == 2
    assert len(json.loads(dromon("queue", "history", "-n", "1", "-o", "json").out)) == 1
    api.box.versions = []
    assert "nothing was changed yet" in dromon("queue", "history").err


def test_a_drained_node_says_what_still_runs(api, dromon):
    assert dromon("node", "drain").err == (
        "dromon: box is drained; 1 job still running: train-k3x9p2\n"
    )
    assert dromon("node", "open", "box").err == "dromon: box is open\n"
    assert api.box.calls == [(None, True), ("box", False)]


# ---- why ----------------------------------------------------------------------------------------


def test_why_says_when_it_is_likely_to_start(api, dromon):
    soon = time.time() + 7200
    waiting = Waiting("waits for 2 GPUs", "resources", 3, start=soon, sure="planned")
    api.known.append(FakeJob(make_status(state="queued"), waiting=waiting))
    planned = re.search(r"  starts    planned \d\d \w+ \d\d:\d\d, in 2h00m", dromon("why").out)
    assert planned is not None
    api.known[0].waiting = waiting._replace(sure="likely")
    assert "  starts    about " in dromon("why").out
    api.known[0].waiting = waiting._replace(start=None)
    assert "starts" not in dromon("why").out


def test_why_tells_who_would_have_to_go(api, dromon):
    assert dromon("why", "41", "--if-preempt").out == "nobody would be sent away for it\n"
    gone = {"user": "ann", "queue": "a", "members": ["worker-0"], "lost": 600.0}
    api.box.victims = [
        {"job": "x-1", "whole": True, **gone},
        {"job": "y-1", "whole": False, **gone},
    ]
    assert dromon("why", "41", "--if-preempt").out.splitlines() == [
        "2 would give way, and lose 20m00s of GPU time since their last checkpoints:",
        "  x-1 (ann, queue a): 10m00s",
        "  y-1 (ann, queue a): 10m00s; only worker-0",
    ]
    assert json.loads(dromon("why", "41", "--if-preempt", "-o", "json").out)[0]["job"] == "x-1"


# ---- the report ---------------------------------------------------------------------------------


@pytest.fixture
def week(api: FakeApi) -> None:
    spells = [
        Spell("x", 0.0, 86400.0, -90.0, "ann", "research", 50, {"gpus": 2.0}),
        Spell("y", 3600.0, 7200.0, 0.0, "<bob>", "product", 50, {"gpus": 4.0}),
    ]
    queue = {"name": "research", "deserved": {"gpus": 3.0}, "usage": {"gpus": 1.0}, "queued": 2}
    api.box.found = report(spells, {"gpus": 4, "cpus": 8}, [queue], 0.0, 2 * 86400.0)


def test_a_report_says_who_used_what_and_who_waited(api, dromon, week):
    out = dromon("report", "--since", "2d").out
    assert "the last 2d0h: 27% of 4 GPUs busy" in out
    assert re.search(r"ann +1 +48\.00 +92% +1m30s +1m30s", out)
    assert re.search(r"product +1 +4\.00 +8%", out)
    assert "2 starts; waited 1h00m (median)" in out
    assert re.search(r"research +3 +1 +2 +0", out)
    (call,) = api.box.calls
    assert abs(call[1] - (time.time() - 2 * 86400)) < 60
    assert json.loads(dromon("report", "-o", "json").out)["users"][0]["name"] == "ann"


@pytest.mark.parametrize("name", ["week.svg", "week.html"])
def test_a_picture_needs_nothing_else(api, dromon, week, tmp_path, name):
    assert f"wrote {tmp_path / name}" in dromon("report", "-o", str(tmp_path / name)).err
    text = (tmp_path / name).read_text()
    assert "<svg" in text
    assert "&lt;bob&gt;" in text
    assert "<bob>" not in text
    addresses = set(re.findall(r"https?://[^\"' <]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of SVG, fetched by nobody
    assert "<script" not in text
    assert "cannot write" in dromon("report", "-o", "/no/such/place.svg", code=64).err
