"""Programs for tf-yarn and command lines of `ydl-mx` on a real YARN.

Programs of the early form bring TensorFlow with them, the last one that has Estimator. Those of the
late form ship the Python they run in, which has none here: a stand-in travels in `files=`.
"""

import getpass
import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from testbeds.yarn.bed import Bed

from dromon.compat.tf_yarn import Experiment, RunFailed, TaskSpec, run_on_yarn
from dromon.hadoop.webhdfs import WebHdfs

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
TENSORFLOW = """
import json, os


class estimator:
    @staticmethod
    def train_and_evaluate(estimator, train_spec, eval_spec):
        config = json.loads(os.environ["TF_CONFIG"])
        name = "{type}-{index}".format(**config["task"])
        with open(os.path.join(estimator, name), "w") as file:
            here = {"container": os.environ["CONTAINER_ID"], "files": os.listdir()}
            json.dump({**config, **here}, file)


class distribute:
    class Server:
        def __init__(self, cluster, job_name, task_index, protocol):
            assert (job_name, task_index) == ("ps", 0)

        def join(self):
            import time
            time.sleep(600)


class train:
    ClusterSpec = dict
"""


class Model(str):
    """A directory that passes for an estimator."""

    @property
    def model_dir(self) -> str:
        return str(self)


@pytest.fixture(scope="module")
def home(lasting_home: Path) -> Path:
    return lasting_home


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment with nothing in it: what is packed and unpacked should not take the time."""
    place = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(place, with_pip=False)
    return str(place)


@pytest.fixture(autouse=True)
def on_yarn(home: Path, bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", bed.plan.conf())
    monkeypatch.delenv("DROMON_ON", raising=False)


def test_experiment_runs_in_containers_and_the_servers_end_with_it(tmp_path, empty, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", empty)
    tmp_path.chmod(0o755)
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    where = str(tmp_path)
    metrics = run_on_yarn(
        lambda: Experiment(Model(where), None, None),
        {"chief": TaskSpec(256, 1), "worker": TaskSpec("256 MiB", 1, 2), "ps": TaskSpec(256, 1)},
        files={"tensorflow.py": str(tmp_path / "tensorflow.py")},
        queue="research",
    )
    found = [json.loads(path.read_text()) for path in sorted(tmp_path.glob("*-*"))]
    tasks = [(each["task"]["type"], each["task"]["index"]) for each in found]
    assert tasks == [("chief", 0), ("worker", 0), ("worker", 1)]
    assert {role: len(hosts) for role, hosts in found[0]["cluster"].items()} == {
        "chief": 1, "worker": 2, "ps": 1,
    }  # fmt: skip
    assert len({each["container"] for each in found}) == 3
    assert {"tensorflow.py", "_tf_yarn"} <= set(found[0]["files"])
    assert metrics is not None
    assert metrics.total_training_duration is not None
    assert metrics.container_duration.keys() == {"chief:0", "worker:0", "worker:1", "ps:0"}


def test_failure_in_a_container_is_raised_here_after_its_retry(empty, monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", empty)

    def experiment_fn() -> Experiment:
        raise KeyError(f"try {os.environ['TF_YARN_N_TRY']}")

    with pytest.raises(RunFailed, match="KeyError") as failed:
        run_on_yarn(experiment_fn, {"chief": TaskSpec(256, 1)}, nb_retries=1)
    assert isinstance(failed.value.__cause__, KeyError)
    assert failed.value.__cause__.args == ("try 1",)


def program(home: Path, name: str, *words: object) -> str:
    """One of the examples, started as its user would."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "tf-yarn" / name), *map(str, words)],
        env={**os.environ, "DROMON_HOME": str(home)},
        capture_output=True, text=True, timeout=850, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_estimator_with_every_kind_of_task_learns_and_is_evaluated(home, dromon, tmp_path):
    told = program(home, "linear_classifier.py", tmp_path / "model")
    assert told == "trained on ['chief:0', 'evaluator:0', 'ps:0', 'worker:0']\n"
    logs = dromon("logs", "@last", "--on", "yarn").stdout
    evaluated = [line for line in logs.splitlines() if "evaluated" in line]
    assert any("'global_step': 200" in line for line in evaluated)
    assert "evaluator:0 of {'chief': 1, 'worker': 1, 'ps': 1}" in logs


def test_keras_model_is_mirrored_over_chief_and_worker(home, dromon, tmp_path):
    program(home, "keras_model.py", tmp_path / "model")
    logs = dromon("logs", "@last", "--on", "yarn").stdout
    assert "group_size = 2" in logs  # gradients were summed over both
    assert f"evaluated {tmp_path}/model/epoch-3" in logs
    assert (tmp_path / "model" / "epoch-3" / "saved_model.pb").exists()


def test_mxnet_line_runs_with_everything_in_the_cluster(home, dromon, bed):
    done = subprocess.run(
        [sys.executable, "-m", "dromon.compat.ydl_mx", "--n", "2", "--s", "1", "--jobname", "J",
         "--jar", "ignored.jar", "train_points.py", "--kv-store", "dist_sync",
         "--model-prefix", "points"],
        env={**os.environ, "DROMON_HOME": str(home)}, cwd=ROOT / "examples" / "ydl-mx",
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = {line.partition(" | ")[2] for line in done.stdout.splitlines()}
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
