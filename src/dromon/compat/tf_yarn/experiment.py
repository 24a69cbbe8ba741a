"""What an experiment function returns. TensorFlow itself is not imported here."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Experiment(NamedTuple):
    """An Estimator with its training and evaluation."""

    estimator: Any  # tf.estimator.Estimator
    train_spec: Any  # tf.estimator.TrainSpec
    eval_spec: Any  # tf.estimator.EvalSpec

    @property
    def config(self) -> Any:
        return self.estimator.config


class KerasExperiment(NamedTuple):
    """A compiled Keras model with what `fit` gets."""

    model: Any  # tf.keras.Model
    model_dir: str
    train_params: Mapping[str, Any]
    input_data_fn: Callable[[], Any] | None = None
    target_data_fn: Callable[[], Any] | None = None
    validation_data_fn: Callable[[], Any] | None = None
