"""TensorFlow on a real YARN: as jobs, and by programs for tf-yarn after a change of import.

All of it here is the last that has Estimator, and comes to one node of one bed: each unpacks more
than a gigabyte.
"""

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest
from yarnsaid import RANKS

from dromon.packaging import environment

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),  # it is downloaded first
    pytest.mark.usefixtures("one_node"),
]

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "examples" / "tf-yarn"
TENSORFLOW = "tensorflow-cpu==2.15.1"
PACKAGES = f'environment.packages=["{TENSORFLOW}"]'
# What Dromon itself needs where it submits.
DROMON = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]

# As the last releases of tf-yarn were called: whatever Python runs this is what the tasks get.
LATE = """
import sys

import tensorflow as tf

import points  # a module of the program's own
from dromon.compat.tf_yarn.tensorflow import KerasExperiment, TaskSpec, run_on_yarn

MODEL_DIR = sys.argv[1]


def experiment_fn():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, activation="sigmoid", input_shape=(8,))])
    model.compile(loss="binary_crossentropy", optimizer="sgd", metrics=["accuracy"])
    saving = tf.keras.callbacks.ModelCheckpoint(MODEL_DIR + "/epoch-{epoch}")
    return KerasExperiment(
        model=model,
        model_dir=MODEL_DIR,
        train_params={"steps_per_epoch": 30, "epochs": 2, "callbacks": [saving], "verbose": 2},
        input_data_fn=points.dataset,
        target_data_fn=None,
        validation_data_fn=lambda: points.dataset(1),
    )


if __name__ == "__main__":
    metrics = run_on_yarn(
        experiment_fn,
        task_specs={
            "chief": TaskSpec(memory="1 GiB", vcores=1),
            "worker": TaskSpec(memory="1 GiB", vcores=1, instances=1),
            "evaluator": TaskSpec(memory="1 GiB", vcores=1),
        },
        files={"points.py": points.__file__, "late.py": __file__},
        env={"TF_CPP_MIN_LOG_LEVEL": "2"},
        nb_retries=1,
    )
    took = metrics.train_eval_time_per_node
    assert metrics.total_training_duration >= max(took["chief:0"], took["worker:0"])
    assert metrics.total_eval_duration == took["evaluator:0"]
    print("ran on", sorted(metrics.container_duration))
"""


@pytest.fixture(scope="module")
def home(lasting_home: Path) -> Path:
    return lasting_home


@pytest.fixture(scope="module")
def python_with_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, str]]:
    """The Python of a user of tf-yarn, and variables by which it finds Dromon too. So what is
    shipped is byte for byte what jobs that name the package get, and is there already."""
    cache = os.path.expanduser("~/.cache/dromon")
    base = str(tmp_path_factory.mktemp("environment"))

    def built(packages: list[str]) -> str:
        lock = environment.resolve({"packages": packages}, base, cache, sys.executable)
        return environment.build(lock, cache)

    (sites,) = Path(built(DROMON)).parents[1].glob("lib/python*/site-packages")
    return built([TENSORFLOW]), {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{sites}"}


def test_tensorflow_workers_mirror_each_other(example):
    told = example("tensorflow-multiworker", PACKAGES, "resources.memory=1GiB")
    assert told.matching(RANKS) == ["rank 0 of 2", "rank 1 of 2"]
    assert told.has_learnt()


def test_tensorflow_servers_and_workers_end_when_their_chief_has(example):
    small = [f"roles.{role}.resources.memory=1GiB" for role in ("chief", "worker", "ps")]
    told = example("tensorflow-ps", PACKAGES, *small)
    assert told.matching(r"(chief|worker|ps) \d") == ["chief 0", "ps 0", "worker 0", "worker 1"]
    assert told.has_learnt()


def test_estimator_with_every_kind_of_task_learns_and_is_evaluated(program, dromon, tmp_path):
    told = program(PROGRAMS / "linear_classifier.py", tmp_path / "model")
    assert told == "trained on ['chief:0', 'evaluator:0', 'ps:0', 'worker:0']\n"
    logs = dromon("logs", "@last", "--on", "yarn").stdout
    evaluated = [line for line in logs.splitlines() if "evaluated" in line]
    assert any("'global_step': 200" in line for line in evaluated)
    assert "evaluator:0 of {'chief': 1, 'worker': 1, 'ps': 1}" in logs


def test_late_keras_program_is_mirrored_over_two_workers(
    program, dromon, tmp_path, python_with_tensorflow
):
    python, variables = python_with_tensorflow
    (tmp_path / "late.py").write_text(LATE)
    (tmp_path / "points.py").write_text((PROGRAMS / "points.py").read_text())
    model = tmp_path / "model"
    told = program(tmp_path / "late.py", model, python=python, env=variables)
    assert told == "ran on ['chief:0', 'evaluator:0', 'worker:0']\n"
    logs = dromon("logs", "@last", "--on", "yarn").stdout
    assert "group_size = 2" in logs  # gradients were summed over both
    assert f"evaluated {model}/epoch-2" in logs
    assert (model / "epoch-2" / "saved_model.pb").exists()
    shown = json.loads(dromon("show", "@last", "--on", "yarn", "-o", "json").stdout)
    assert shown["environment"]["kind"] == "host"  # its own Python, and no list of packages
