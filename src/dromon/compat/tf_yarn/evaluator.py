"""The evaluator: every checkpoint once while training goes on, the last one after it has ended."""

import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dromon.compat.tf_yarn import progress
from dromon.compat.tf_yarn.experiment import Experiment, KerasExperiment
from dromon.compat.tf_yarn.library import tensorflow

log = logging.getLogger(__name__)
ACQUAINTANCE = 1200.0  # seconds in which the chief must have come to the model's directory
POLL = 1.0
KERAS_THROTTLE = 30.0

Thresholds = Mapping[str, tuple[float | None, float | None]]


def evaluate(experiment: Experiment | KerasExperiment, thresholds: Thresholds) -> None:
    monitor = Monitor(thresholds)
    if isinstance(experiment, KerasExperiment):
        if experiment.validation_data_fn is None:
            raise ValueError("an evaluator needs validation_data_fn= in its KerasExperiment")
        directory, pause = experiment.model_dir, KERAS_THROTTLE
        found: Callable[[], list[str]] = lambda: _keras_models(directory)  # noqa: E731
        one = _keras_evaluation(experiment, monitor)
    else:
        directory, pause = experiment.estimator.model_dir, experiment.eval_spec.throttle_secs
        found = lambda: _checkpoints(directory)  # noqa: E731
        one = _estimator_evaluation(experiment, monitor)
        _wait(directory, experiment.eval_spec.start_delay_secs or 0)
    _meet(directory)
    seen: set[str] = set()
    while True:
        # In this order: a checkpoint written after we looked is found in the next round.
        is_over = progress.read(directory) == progress.TRAINED
        fresh = [name for name in found() if name not in seen]
        for name in fresh:
            one(name, is_over and name == fresh[-1])
            seen.add(name)
        if is_over:
            break
        _wait(directory, pause)
    progress.forget(directory)
    if not seen:
        log.warning("training ended and left nothing to evaluate in %s", directory)


def _meet(directory: str) -> None:
    deadline = time.monotonic() + ACQUAINTANCE
    while not progress.read(directory):
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"the evaluator sees no sign of the chief in {directory}: the model's directory "
                "must be one that all members share, such as hdfs://…"
            )
        time.sleep(POLL)


def _wait(directory: str, seconds: float) -> None:
    """As long as that, or until training ends."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and progress.read(directory) != progress.TRAINED:
        time.sleep(min(POLL, max(0.0, deadline - time.monotonic())))


# ---- Estimator ----------------------------------------------------------------------------------


def _checkpoints(directory: str) -> list[str]:
    tf = tensorflow()
    state = tf.train.get_checkpoint_state(directory)
    return list(state.all_model_checkpoint_paths) if state else []


def _estimator_evaluation(experiment: Experiment, monitor: "Monitor") -> Callable[[str, bool], Any]:
    tf = tensorflow()
    estimator, spec = experiment.estimator, experiment.eval_spec
    exporters = spec.exporters or ()

    def one(checkpoint: str, is_last: bool) -> None:
        if not tf.io.gfile.exists(checkpoint + ".index"):
            return  # pruned while another was evaluated
        steps = [0]
        counter = _step_counter(steps)
        began = time.monotonic()
        result = estimator.evaluate(
            spec.input_fn, steps=spec.steps, hooks=[*(spec.hooks or ()), counter],
            checkpoint_path=checkpoint, name=spec.name,
        )  # fmt: skip
        for exporter in exporters:
            path = os.path.join(estimator.model_dir, "export", exporter.name)
            exporter.export(estimator, path, checkpoint, result, is_last)
        monitor.tell(int(result["global_step"]), steps[0], time.monotonic() - began)
        log.info("evaluated %s: %s", checkpoint, {k: _plain(v) for k, v in result.items()})

    return one


def _step_counter(steps: list[int]) -> Any:
    def after_run(hook: Any, run_context: Any, run_values: Any) -> None:
        steps[0] += 1

    base = tensorflow().estimator.SessionRunHook
    return type("StepCounter", (base,), {"after_run": after_run})()


# ---- Keras --------------------------------------------------------------------------------------


def _keras_models(directory: str) -> list[str]:
    """What `ModelCheckpoint` saved there whole, oldest first."""
    tf = tensorflow()
    files = tf.io.gfile
    if not files.exists(directory):
        return []
    found: list[tuple[int, str]] = []
    for name in files.listdir(directory):
        path = f"{directory.rstrip('/')}/{name.rstrip('/')}"
        mark = f"{path}/saved_model.pb" if files.isdir(path) else path
        if mark.endswith((".keras", ".h5", "/saved_model.pb")) and files.exists(mark):
            found.append((files.stat(mark).mtime_nsec, path))
    return [path for _, path in sorted(found)]


def _keras_evaluation(
    experiment: KerasExperiment, monitor: "Monitor"
) -> Callable[[str, bool], Any]:
    tf = tensorflow()
    assert experiment.validation_data_fn is not None
    data_fn = experiment.validation_data_fn

    def one(path: str, is_last: bool) -> None:
        began = time.monotonic()
        model = _loaded(tf, path)
        result = model.evaluate(data_fn(), return_dict=True, verbose=0)
        monitor.tell(None, None, time.monotonic() - began)
        log.info("evaluated %s: %s", path, {k: _plain(v) for k, v in result.items()})

    return one


def _loaded(tf: Any, path: str) -> Any:
    """One that is still being written is whole a little later."""
    for _ in range(10):
        try:
            return tf.keras.models.load_model(path)
        except Exception:
            time.sleep(POLL)
    return tf.keras.models.load_model(path)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


# ---- what `eval_monitor_log_thresholds` is about ------------------------------------------------


class Monitor:
    """Figures about evaluating itself; each is logged while within the range it was given."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._began = time.monotonic()
        self._awake = 0.0
        self._steps = 0

    def tell(self, step: int | None, steps: int | None, seconds: float) -> None:
        self._awake += seconds
        self._steps += steps or 0
        figures = {
            "awake_time_ratio": self._awake / max(time.monotonic() - self._began, 1e-9),
            "eval_step_mean_duration": self._awake / self._steps if self._steps else None,
            "last_training_step": step,
            "nb_eval_steps": self._steps or None,
        }
        told = [f"{name}={value:g}" for name, value in self._within(figures)]
        if told:
            log.info("evaluator: %s", " ".join(told))

    def _within(self, figures: Mapping[str, float | None]) -> Iterator[tuple[str, float]]:
        for name, value in figures.items():
            low, high = self._thresholds.get(name, (None, None))
            if value is not None and (low or 0) <= value <= (
                float("inf") if high is None else high
            ):
                yield name, value
