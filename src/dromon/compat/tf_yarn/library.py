"""TensorFlow, imported when it is first needed: whoever submits a job may not have it."""

import importlib
from typing import Any


def tensorflow() -> Any:
    return importlib.import_module("tensorflow")
