"""What a member does: serve as `ps`, train as `chief` or `worker`, evaluate as `evaluator`.

Runs in the job's Python, where TensorFlow is; nothing of Dromon but this package is at hand.
"""

import json
import logging
import logging.config
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from dromon.compat.tf_yarn import evaluator
from dromon.compat.tf_yarn.experiment import Experiment, KerasExperiment
from dromon.compat.tf_yarn.library import tensorflow
from dromon.compat.tf_yarn.progress import Progress

log = logging.getLogger(__name__)
MIRRORED = "DROMON_TF_YARN_MIRRORED"  # set in a process that was started again for the strategy


def run(experiment_fn: Callable[[], Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Called by name from the payload. What it returns makes the caller's `Metrics`."""
    _log_to(asked.get("log_conf_file"))
    world = json.loads(os.environ["TF_CONFIG"])
    role, index = world["task"]["type"], world["task"]["index"]
    log.info("%s:%d of %s", role, index, {r: len(a) for r, a in world["cluster"].items()})
    if role == "ps":
        _serve(world)
    mirrored = bool(os.environ.get(MIRRORED))
    experiment = _under_strategy(experiment_fn) if mirrored else experiment_fn()
    if not isinstance(experiment, (Experiment, KerasExperiment)):
        raise TypeError(
            "experiment_fn must return an Experiment or a KerasExperiment, "
            f"not a {type(experiment).__name__}"
        )
    began = time.time()
    if role == "evaluator":
        evaluator.evaluate(experiment, asked.get("thresholds") or {})
    elif isinstance(experiment, KerasExperiment):
        if not mirrored and _trainers(world) > 1:
            _again_for_strategy()
        with Progress(experiment.model_dir, role == "chief" and asked["evaluated"]):
            _fit(experiment)
    else:
        tf = tensorflow()
        with Progress(experiment.estimator.model_dir, role == "chief" and asked["evaluated"]):
            tf.estimator.train_and_evaluate(
                experiment.estimator, experiment.train_spec, experiment.eval_spec
            )
    return {"task": f"{role}:{index}", "began": began, "ended": time.time()}


def _log_to(file: str | None) -> None:
    if file:
        logging.config.fileConfig(file, disable_existing_loggers=False)
    else:
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")


def _serve(world: Mapping[str, Any]) -> None:
    """Until the gang's end: a parameter server needs no model, only the others' addresses."""
    tf = tensorflow()
    server = tf.distribute.Server(
        tf.train.ClusterSpec(world["cluster"]),
        job_name="ps",
        task_index=world["task"]["index"],
        protocol="grpc",
    )
    server.join()
    sys.exit(0)


def _trainers(world: Mapping[str, Any]) -> int:
    return sum(len(world["cluster"].get(role, ())) for role in ("chief", "worker"))


def _again_for_strategy() -> None:
    """A strategy over several workers must exist before TensorFlow's first operation, and building
    the model that told us we need one has already been that: so this process starts over."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ[MIRRORED] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _under_strategy(experiment_fn: Callable[[], Any]) -> Any:
    tf = tensorflow()
    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        return experiment_fn()


def _fit(experiment: KerasExperiment) -> None:
    given = dict(experiment.train_params)
    if experiment.input_data_fn is not None:
        given["x"] = experiment.input_data_fn()
    if experiment.target_data_fn is not None:
        given["y"] = experiment.target_data_fn()
    experiment.model.fit(**given)
