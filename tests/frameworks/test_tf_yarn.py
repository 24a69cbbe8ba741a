"""Programs written for tf-yarn, on the last TensorFlow with Estimator, after a change of import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dromon.packaging import environment

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(1200)]  # TensorFlow is downloaded first

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "tf-yarn"
TENSORFLOW = "tensorflow-cpu==2.15.1"
# What Dromon itself needs, for programs whose own Python has both.
DROMON = ["cloudpickle>=3.1", "pydantic>=2.12", "ruamel.yaml>=0.19", "shtab>=1.13", "uv>=0.13"]

LATE = """
import os
import sys

import tensorflow as tf

from dromon.compat.tf_yarn.tensorflow import Experiment, TaskSpec, run_on_yarn
from dromon.compat.tf_yarn.tensorflow import get_safe_experiment_fn

import points  # a module of the program's own

MODEL_DIR = sys.argv[1] if len(sys.argv) > 1 else ""


def experiment_fn(model_dir=MODEL_DIR, epochs=2):
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, activation="sigmoid", input_shape=(8,))])
    model.compile(loss="binary_crossentropy", optimizer="sgd", metrics=["accuracy"])
    config = tf.estimator.RunConfig(model_dir=model_dir, save_checkpoints_steps=10)
    estimator = tf.keras.estimator.model_to_estimator(model, config=config)
    return Experiment(
        estimator,
        # No max_steps: the data ends, and the evaluator must learn of it.
        tf.estimator.TrainSpec(lambda: points.dataset(epochs)),
        tf.estimator.EvalSpec(
            lambda: points.dataset(1),
            start_delay_secs=0,
            throttle_secs=30,
            exporters=tf.estimator.FinalExporter("final", serving),
        ),
    )


def serving():
    inputs = {"dense_input": tf.compat.v1.placeholder(tf.float32, [None, 8])}
    return tf.estimator.export.ServingInputReceiver(inputs, inputs)


if __name__ == "__main__":
    safe = len(sys.argv) > 2
    # None: this very Python, as the last releases did by packing it.
    metrics = run_on_yarn(
        get_safe_experiment_fn("late.experiment_fn", MODEL_DIR) if safe else experiment_fn,
        {
            "chief": TaskSpec(memory="1 GiB", vcores=2),
            "evaluator": TaskSpec(memory="1 GiB", vcores=1),
        },
        files={"late.py": __file__, "points.py": points.__file__} if safe else None,
        nb_retries=1,
        eval_monitor_log_thresholds={"nb_eval_steps": (1, None), "last_training_step": (1e9, None)},
    )
    assert metrics.total_training_duration and metrics.total_eval_duration
    assert metrics.train_eval_time_per_node["chief:0"]
"""


def run(home: Path, python: str, *words: object, **variables: str) -> str:
    done = subprocess.run(
        [python, *map(str, words)],
        env={**os.environ, "DROMON_HOME": str(home), "DROMON_ON": "local", **variables},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def python_with_both(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has TensorFlow and what Dromon needs, as a tf-yarn user's has."""
    cache = os.path.expanduser("~/.cache/dromon")
    base = str(tmp_path_factory.mktemp("environment"))
    asked = {"packages": [TENSORFLOW, *DROMON]}
    return environment.build(environment.resolve(asked, base, cache, sys.executable), cache)


def test_estimator_with_every_kind_of_task_learns_and_is_evaluated(home, dromon, tmp_path):
    said = run(home, sys.executable, EXAMPLES / "linear_classifier.py", tmp_path / "model")
    assert said == "trained on ['chief:0', 'evaluator:0', 'ps:0', 'worker:0']\n"
    logs = dromon("logs", "@last").stdout
    evaluated = [line for line in logs.splitlines() if "evaluated" in line]
    assert any("'global_step': 200" in line for line in evaluated)
    assert "evaluator:0 of {'chief': 1, 'worker': 1, 'ps': 1}" in logs
    assert not list((tmp_path / "model").glob(".dromon-*"))


def test_keras_model_is_mirrored_over_chief_and_worker(home, dromon, tmp_path):
    run(home, sys.executable, EXAMPLES / "keras_model.py", tmp_path / "model")
    logs = dromon("logs", "@last").stdout
    assert "group_size = 2" in logs  # gradients were summed over both
    assert f"evaluated {tmp_path}/model/epoch-3" in logs
    assert (tmp_path / "model" / "epoch-3" / "saved_model.pb").exists()


@pytest.mark.parametrize("how", ["pickled", "by name"])
def test_late_program_with_its_own_python(home, dromon, tmp_path, python_with_both, how):
    (tmp_path / "late.py").write_text(LATE)
    (tmp_path / "points.py").write_text((EXAMPLES / "points.py").read_text())
    words = [tmp_path / "late.py", tmp_path / "model", *(["safe"] if how == "by name" else [])]
    run(home, python_with_both, *words, PYTHONPATH=str(ROOT / "src"))
    logs = dromon("logs", "@last").stdout
    assert "'global_step': 32" in logs  # two epochs of sixteen batches, then the data ended
    assert "nb_eval_steps=" in logs
    assert "last_training_step=" not in logs  # outside the range that was asked for
    assert list((tmp_path / "model" / "export" / "final").glob("*/saved_model.pb"))
