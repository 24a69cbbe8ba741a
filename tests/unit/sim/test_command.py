"""`dromon simulate` as it is typed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dromon.cli.main import main

TRACE = (
    "submit,duration,gpus,user,queue\n0,100,4,ann,a\n10,50,4,bob,b\n20,1h,8,ann,a\n30,60,1,bob,b\n"
)


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return str(path)


class Machine:
    """A machine of two GPUs whose past was one gang after another."""

    def nodes(self) -> Sequence[Any]:
        gpus = [{"index": 0, "kind": "v100"}, {"index": 1, "kind": "v100"}]
        total = {"cpus": 8.0, "memory": 1 << 34, "gpus": 2}
        return [SimpleNamespace(name="box", total=total, gpus=gpus, labels=())]

    def machine(self) -> "Machine":
        return self

    def history(self, since: float = 0.0) -> Sequence[Mapping[str, Any]]:
        role = {
            "replicas": 2, "min": 2, "cpus": 1.0, "memory": None, "gpus": 1, "gpu_kinds": {},
            "node_label": None, "spread": "none",
        }  # fmt: skip
        job = {
            "name": "gang", "user": "ann", "queue": "default", "priority": 0, "preemptible": True,
            "submitted": 1000.0, "max_duration": None, "ran": 60.0, "roles": {"worker": role},
        }  # fmt: skip
        return [{**job, "id": f"gang-{n}"} for n in range(2)] + [{**job, "id": "x", "ran": 0.0}]


def run(capfd: pytest.CaptureFixture[str], *words: str, api: Any = None) -> tuple[int, str, str]:
    code = main(["simulate", *words], api or Machine())
    said = capfd.readouterr()
    return code, said.out, said.err


def test_policies_stand_side_by_side(trace: str, capfd: pytest.CaptureFixture[str]):
    code, out, _ = run(capfd, trace, "--nodes", "1x8", "--compare", "fifo,drf,srtf")
    assert code == 0
    assert "4 jobs submitted within 30s (dromon), on 1 node with 8 GPUs" in out
    assert out.splitlines()[2].split() == ["FIFO", "DRF", "SRTF"]
    assert "mean JCT" in out


def test_the_same_input_gives_the_same_output_to_the_byte(
    trace: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    found = []
    for _ in range(2):
        page = tmp_path / "page.html"
        words = (trace, "--nodes", "1x8", "--compare", "fair,las")
        texts = [run(capfd, *words, "-o", form)[1] for form in ("json", "csv")]
        assert run(capfd, *words, "-o", str(page))[0] == 0
        found.append((*texts, page.read_bytes()))
    assert found[0] == found[1]
    assert [each["policy"] for each in json.loads(found[0][0])["runs"]] == ["fair", "las"]


def test_history_asks_what_two_more_gpus_would_have_brought(capfd: pytest.CaptureFixture[str]):
    makespans = []
    for words in ((), ("--nodes", "+2xa100")):
        code, out, _ = run(capfd, "--history", *words, "-o", "json")
        assert code == 0
        (found,) = json.loads(out)["runs"]
        assert found["jobs"] == 2
        makespans.append(found["makespan"])
    assert makespans == [120.0, 60.0]


def test_queues_come_from_a_site_file(
    trace: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    site = tmp_path / "site.yaml"
    site.write_text("queues:\n  a: {limit: {gpus: 2}}\n  b: {}\n")
    _, out, _ = run(capfd, trace, "--nodes", "1x8", "--queues", str(site))
    assert "2 can never run there" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give a trace file, or --history"),
        (["TRACE", "--history"], "one of them"),
        (["TRACE"], "--nodes is missing"),
        (["TRACE", "--nodes", "many"], "--nodes many: not understood"),
        (["TRACE", "--nodes", "1x8", "--policy", "luck"], "there is no policy 'luck'"),
        (["TRACE", "--nodes", "1x8", "--placement", "luck"], "there is no placement 'luck'"),
        (["TRACE", "--nodes", "1x8", "-o", "a.txt"], "expected json, csv, or a file ending"),
        (["TRACE", "--nodes", "1x8", "-o", "/nowhere/a.html"], "cannot write /nowhere/a.html"),
        (["TRACE", "--nodes", "1x8", "--queues", "/nowhere.yaml"], "No such file"),
        (["/nowhere.csv", "--nodes", "1x8"], "No such file"),
    ],
)
def test_what_makes_no_sense_is_said_and_leaves_with_64(
    words: list[str], said: str, trace: str, capfd: pytest.CaptureFixture[str]
):
    code, out, err = run(capfd, *(trace if word == "TRACE" else word for word in words))
    assert (code, out) == (64, "")
    assert said in err
