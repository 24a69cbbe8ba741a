import pytest

from dromon.spec import load_text
from dromon.spec.starter import framework_of, starter


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        ("import torch\n", "torch"),
        ("import os, torch.nn as nn\n", "torch"),
        ("from torch.nn import Linear\n", "torch"),
        ("    import jax.numpy as jnp\n", "jax"),
        ("import tensorflow as tf\n", "tensorflow"),
        ("import mxnet as mx", "mxnet"),
        ("from mpi4py import MPI", "mpi"),
        ("import torch\nimport horovod.torch as hvd\n", "horovod"),
        ("import lightning as L", "torch"),
        ("from accelerate import Accelerator", "torch"),
        ("# import torch\nprint('import torch')\n", "none"),
        ("import torchless\n", "none"),
        ("", "none"),
    ],
)
def test_the_framework_is_guessed_from_the_imports(text: str, framework: str) -> None:
    assert framework_of(text) == framework


@pytest.mark.parametrize(
    "script", ["train.py", "a b/My Script (2).py", 'odd"\\name.py', "3d.py", "новый\n.py"]
)
@pytest.mark.parametrize("text", ["", "import torch", "import mxnet", "import tensorflow"])
def test_the_starter_file_is_a_valid_job(script: str, text: str) -> None:
    job = load_text(starter(script, text), "job.yaml")
    command = job.roles["worker"].command
    assert command == (
        f"python {script}" if script in ("train.py", "3d.py") else ["python", script]
    )
    assert job.framework == framework_of(text)


def test_the_commented_lines_are_valid_too() -> None:
    lines = starter("train.py", "import torch").splitlines()
    opened = "\n".join(
        line[2:] if line.startswith("# ") and at > 1 else line for at, line in enumerate(lines)
    )
    job = load_text(opened, "job.yaml")
    assert job.environment is not None
    assert (job.max_duration, job.retries.max, job.outputs) == (28800.0, 3, ["checkpoints"])
