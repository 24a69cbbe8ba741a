"""What `run_on_yarn` of tf-yarn gives and raises on a real YARN, whatever its members run.

They run a stand-in for TensorFlow here, which travels in `files=`; the real one has its own file.
"""

import json
import os
import sys
import venv
from pathlib import Path

import pytest
from testbeds.yarn.bed import Bed

from dromon.compat.tf_yarn import Experiment, RunFailed, TaskSpec, run_on_yarn

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

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
    """A Python with nothing in it: what is packed and unpacked should not take the time."""
    place = tmp_path_factory.mktemp("empty") / "venv"
    venv.create(place, with_pip=False)
    return str(place / "bin" / "python")


@pytest.fixture(autouse=True)
def on_yarn(home: Path, bed: Bed, empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", bed.plan.conf())
    monkeypatch.delenv("DROMON_ON", raising=False)
    # Programs of the late form ship the Python that runs them.
    monkeypatch.setattr(sys, "executable", empty)


def test_experiment_runs_in_containers_and_the_servers_end_with_it(tmp_path):
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


def test_failure_in_a_container_is_raised_here_after_its_retry():

    def experiment_fn() -> Experiment:
        raise KeyError(f"try {os.environ['TF_YARN_N_TRY']}")

    with pytest.raises(RunFailed, match="KeyError") as failed:
        run_on_yarn(experiment_fn, {"chief": TaskSpec(256, 1)}, nb_retries=1)
    assert isinstance(failed.value.__cause__, KeyError)
    assert failed.value.__cause__.args == ("try 1",)
