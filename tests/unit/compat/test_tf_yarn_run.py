"""`run_on_yarn` with real members on this machine. A stand-in for TensorFlow travels in `files=`:
what is shown is how the experiment reaches the members and comes back."""

import json
import os
import stat
import sys
import venv
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest

from dromon.compat.tf_yarn import Experiment, RunFailed, TaskSpec, run_on_yarn

TENSORFLOW = '''
"""As much of TensorFlow as an experiment without a model needs."""
import json, os, pathlib, time


class estimator:
    @staticmethod
    def train_and_evaluate(estimator, train_spec, eval_spec):
        task = json.loads(os.environ["TF_CONFIG"])["task"]
        with open(os.path.join(estimator.model_dir, task["type"]), "w") as file:
            rows = pathlib.Path("data/a.txt").read_text()
            file.write(f"{train_spec} {os.environ['COLOUR']} {rows}")
'''


class Model:
    def __init__(self, model_dir: str) -> None:
        self.model_dir = model_dir


@pytest.fixture(autouse=True)
def here(home, monkeypatch):
    monkeypatch.setenv("DROMON_ON", "local")


def test_experiment_runs_in_every_trainer_and_metrics_come_back(tmp_path):
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("rows")
    where = str(tmp_path)
    metrics = run_on_yarn(
        lambda: Experiment(Model(where), "steps", None),
        {"chief": TaskSpec(256, 1), "worker": TaskSpec(256, 1)},
        files={"tensorflow.py": str(tmp_path / "tensorflow.py"), "data": str(tmp_path / "data")},
        env={"COLOUR": "blue"},
    )
    assert (tmp_path / "chief").read_text() == "steps blue rows"
    assert (tmp_path / "worker").read_text() == "steps blue rows"
    assert metrics is not None
    assert isinstance(metrics.total_training_duration, timedelta)
    assert metrics.container_duration.keys() == {"chief:0", "worker:0"}


def test_failure_is_run_failed_with_the_tasks_own_error_as_its_cause():
    def experiment_fn() -> Experiment:
        raise KeyError(f"try {os.environ['TF_YARN_N_TRY']}")

    with pytest.raises(RunFailed, match="dromon logs run-on-yarn-") as failed:
        run_on_yarn(experiment_fn, {"chief": TaskSpec(256, 1)}, nb_retries=1)
    assert isinstance(failed.value.__cause__, KeyError)
    assert failed.value.__cause__.args == ("try 1",)  # of the second and last


def test_experiment_that_is_none_is_told_so():
    with pytest.raises(
        RunFailed, match="must return an Experiment or a KerasExperiment, not a dict"
    ):
        run_on_yarn(dict, {"chief": TaskSpec(256, 1)})


def test_zipped_environment_is_the_members_python(tmp_path):
    venv.create(tmp_path / "env", symlinks=True)
    with zipfile.ZipFile(tmp_path / "env.zip", "w") as archive:
        for path in sorted((tmp_path / "env").rglob("*")):
            name = str(path.relative_to(tmp_path / "env"))
            if path.is_symlink():
                entry = zipfile.ZipInfo(name)
                entry.external_attr = (stat.S_IFLNK | 0o777) << 16
                archive.writestr(entry, os.readlink(path))
            elif path.is_file():
                archive.write(path, name)

    def experiment_fn() -> Experiment:
        raise RuntimeError(json.dumps({"prefix": sys.prefix, "dromon": "dromon" in sys.modules}))

    with pytest.raises(RunFailed) as failed:
        run_on_yarn(str(tmp_path / "env.zip"), experiment_fn, {"chief": TaskSpec(256, 1)})
    found = json.loads(str(failed.value.__cause__))
    assert Path(found["prefix"]).name.startswith("pyenv-")  # and it has no Dromon but the shipped
    assert found["dromon"]
