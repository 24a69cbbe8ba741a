"""`dromon init train.py`: a commented job file to begin with. Text in, text out."""

import json
import re

from dromon.spec.names import NAME_LIMIT

# First match wins: libraries built on a framework come before the framework itself.
IMPORTS = (
    ("horovod", "horovod"),
    ("lightning", "torch"),
    ("pytorch_lightning", "torch"),
    ("accelerate", "torch"),
    ("torch", "torch"),
    ("jax", "jax"),
    ("tensorflow", "tensorflow"),
    ("mxnet", "mxnet"),
    ("mpi4py", "mpi"),
)
_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+([^\n#]+)", re.MULTILINE)
_SAFE = re.compile(r"[A-Za-z0-9_./-]+")
_SERVERS = """\
  server:                     # keeps the parameters; its command is MXNet's own
    replicas: 1
"""


def framework_of(text: str) -> str:
    """The framework a script's imports speak of; `none` when they speak of none."""
    imported: set[str] = set()
    for found in _IMPORT.finditer(text):
        names = found.group(1).split(" import ")[0]
        imported.update(name.strip().split(".")[0].split(" ")[0] for name in names.split(","))
    return next((framework for module, framework in IMPORTS if module in imported), "none")


def starter(script: str, text: str) -> str:
    """A job file that runs this script; `text` is what the script holds."""
    framework = framework_of(text)
    replicas = 1 if framework == "none" else 2
    extra = _SERVERS if framework == "mxnet" else ""
    return f"""\
# A Dromon job. Run it with `dromon run FILE`, check it with `dromon check FILE`.
# Everything but a command has a default; lines that start with # show what else there is.
name: {_name(script)}
framework: {framework:<19} # none torch tensorflow mxnet jax mpi horovod
workdir: .                    # snapshotted at submit: later edits do not reach a queued job
# queue: default
# priority: normal            # a priority class, or a number
# max_duration: 8h            # stopped after so long
# stop_grace: 30s             # time to checkpoint between being asked to stop and being killed

# environment:                # without it, the Python you call dromon with is used
#   python: "3.11"
#   packages: [numpy]         # or requirements: FILE, or lock: uv.lock

# env: {{OMP_NUM_THREADS: "1"}}
# secrets: [WANDB_API_KEY]    # names only; the values come from your own environment

roles:
  worker:
    replicas: {replicas:<16} # members that start together or not at all
    command: {_command(script)}
    resources: {{cpus: 1}}      # per member; also memory: 16GiB, gpus: 1, shm: 8GiB
{extra}
# volumes:                    # reached as ${{volumes.data}} and $DROMON_VOLUME_DATA
#   data: {{source: /path/to/data, access: mount}}

# retries: {{max: 3, backoff: 10s}}
# outputs: [checkpoints]      # kept when the job ends
# tensorboard: runs

# config:                     # yours: any shape; use it as ${{config.training.epochs}} above
#   training: {{epochs: 10}}
"""


def _name(script: str) -> str:
    stem = script.rsplit("/", 1)[-1].rsplit(".", 1)[0].lower()
    slug = re.sub(r"[^a-z0-9]+", "-", stem).strip("-").lstrip("0123456789-")
    return slug[:NAME_LIMIT].rstrip("-") or "job"


def _command(script: str) -> str:
    if _SAFE.fullmatch(script):
        return f"python {script}"
    return f"[python, {json.dumps(script, ensure_ascii=False)}]"
