"""How the chief tells the evaluator, which is outside the cluster, that training has ended.

A small file in the model's directory, the one place that both are sure to share. Without it an
evaluator waits for ever where training ends before `max_steps`, or for `throttle_secs` where not.
"""

import os
from types import TracebackType
from typing import Any

from dromon.compat.tf_yarn.library import tensorflow

TRAINING, TRAINED = "training", "trained"


def _path(model_dir: str) -> str:
    job = os.environ.get("DROMON_JOB_ID", "job")
    attempt = os.environ.get("DROMON_ATTEMPT", "1")
    return f"{model_dir.rstrip('/')}/.dromon-{job}-{attempt}"


def _files() -> Any:
    return tensorflow().io.gfile


def read(model_dir: str) -> str:
    """What the chief wrote last; empty when it has written nothing, or not here."""
    try:
        with _files().GFile(_path(model_dir), "r") as file:
            return str(file.read())
    except Exception:  # each file system of TensorFlow has its own for "not there"
        return ""


def forget(model_dir: str) -> None:
    if read(model_dir):
        _files().remove(_path(model_dir))


class Progress:
    """Around training. Does nothing where nobody evaluates."""

    def __init__(self, model_dir: str, is_told: bool) -> None:
        self._model_dir = model_dir
        self._is_told = is_told

    def __enter__(self) -> None:
        self._tell(TRAINING)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        if error is None:
            self._tell(TRAINED)

    def _tell(self, word: str) -> None:
        if self._is_told:
            _files().makedirs(self._model_dir)
            with _files().GFile(_path(self._model_dir), "w") as file:
                file.write(word)
