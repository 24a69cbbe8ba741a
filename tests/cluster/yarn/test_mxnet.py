"""MXNet on a real YARN: as a job, and by the command line of MXNetOnYARN."""

import getpass
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dromon.hadoop.webhdfs import WebHdfs

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # it is downloaded first

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def home(lasting_home: Path) -> Path:
    return lasting_home


def test_mxnet_workers_agree_through_servers_in_containers_of_their_own(example):
    told = example("mxnet-dist-sync")
    assert told.matching(r"rank \d of 2") == ["rank 0 of 2", "rank 1 of 2"]
    assert told.has_learnt()
    assert len({line.split()[-1] for line in told.matching(r"rank \d weights .*")}) == 1


def test_mxnet_line_runs_with_everything_in_the_cluster(program, dromon, bed):
    told = program(
        "-m", "dromon.compat.ydl_mx", "--n", "2", "--s", "1", "--jobname", "J", "--jar",
        "ignored.jar", "train_points.py", "--kv-store", "dist_sync", "--model-prefix", "points",
        cwd=ROOT / "examples" / "ydl-mx",
    )  # fmt: skip
    said = {line.partition(" | ")[2] for line in told.splitlines()}
    assert {"worker 0 of 2", "worker 1 of 2"} <= said
    assert min(float(line.split()[-1]) for line in said if " accuracy " in line) > 0.9
    shown = json.loads(dromon("show", "j", "--on", "yarn", "-o", "json").stdout)
    assert "points-0005.params" in {Path(o["path"]).name for o in shown["outputs"]}
    # Results and logs are on HDFS, wherever it was submitted from.
    path = urlsplit(shown["record"]).path + "/outputs/points-0005.params"
    kept = WebHdfs([bed.plan.web("namenode")], getpass.getuser()).stat(path)
    assert kept is not None
    assert kept.length > 0
    logs = dromon("logs", "j", "--on", "yarn").stdout
    assert {"worker 0 of 2", "worker 1 of 2"} <= {s.partition(" | ")[2] for s in logs.splitlines()}
    assert {m["member"] for m in shown["members"]} == {
        "scheduler-0", "server-0", "worker-0", "worker-1",
    }  # fmt: skip
