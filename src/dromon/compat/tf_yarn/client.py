"""`run_on_yarn`: submits, waits, gives back the metrics or raises RunFailed."""

import importlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from dromon.compat import cores
from dromon.compat.tf_yarn import topologies, translate
from dromon.compat.tf_yarn.metrics import Metrics, measured
from dromon.errors import Refused

log = logging.getLogger("dromon.compat.tf_yarn")
POLL = 10.0
# Of what the job asks for, what this machine alone cannot give.
NOT_HERE = {
    "hdfs": "name_nodes=/file_systems= get no tokens on this machine",
    "acls": "acls= has no effect on this machine",
    "tensorboard": "no TensorBoard is started on this machine; point one at tb_model_dir",
}


class RunFailed(Exception):
    """`run_on_yarn` failed."""


def run_on_yarn(*args: Any, **kwargs: Any) -> Metrics | None:
    """Run an experiment as a job, and wait for it.

    Every form tf-yarn had is understood::

        run_on_yarn(experiment_fn, task_specs, python=, pip_packages=, files=, …)   # first and last
        run_on_yarn(pyenv_zip_path, experiment_fn, task_specs, files=, …)           # in between

    Further arguments: env, queue, acls, name_nodes or file_systems, pyenv_zip_path, nb_retries,
    name, pre_script_hook, eval_monitor_log_thresholds, log_conf_file. DROMON_ON says where it
    runs; without it the context in use, else `yarn`. Raises RunFailed where the job fails, and
    `dromon.errors.Refused`, before anything runs, for what cannot be honoured.
    """
    from dromon import contexts

    call = bound(args, kwargs)
    on = os.environ.get("DROMON_ON") or contexts.in_use() or "yarn"
    run = _submitted(call, on)
    log.info("submitted %s on %s; its output: dromon logs -f %s", run.id, on, run.id)
    try:
        status = _awaited(run)
    except KeyboardInterrupt:
        log.error("stopping %s", run.id)
        run.stop()
        raise
    if status.state != "succeeded":
        raise _failed(run, status)
    metrics = measured(status.members, run.results())
    log.info("%s succeeded; trained for %s", run.id, metrics.total_training_duration)
    return metrics


def bound(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> translate.Call:
    """The arguments, in either order of the first ones."""
    given = dict(kwargs)
    pyenv_first = bool(args) and not callable(args[0])
    names = ["pyenv_zip_path"] if pyenv_first else []
    names += ["experiment_fn", "task_specs"]
    if len(args) > len(names):
        raise TypeError(f"run_on_yarn takes {len(names)} positional arguments, not {len(args)}")
    for name, value in zip(names, args, strict=False):
        if name in given:
            raise TypeError(f"run_on_yarn got {name} twice")
        given[name] = value
    unknown = sorted(set(given) - set(translate.Call.__dataclass_fields__))
    if unknown:
        raise TypeError(f"run_on_yarn got an unexpected keyword argument {unknown[0]!r}")
    if "experiment_fn" not in given:
        raise TypeError("run_on_yarn misses experiment_fn")
    if given.get("task_specs") is None:
        given["task_specs"] = topologies.single_server_topology()
    given["env"] = given.get("env") or {}
    return translate.Call(**given)


def _submitted(call: translate.Call, on: str) -> Any:
    from dromon import api

    # Gone when this returns: by then the job's code is fixed elsewhere.
    stage = tempfile.mkdtemp(prefix="dromon-tf-yarn-")
    try:
        job = translate.job(call, on, stage)
        if on == "local":
            for key in sorted(NOT_HERE.keys() & job.keys()):
                log.warning(NOT_HERE[key])
            here = len(os.sched_getaffinity(0))
            if cores.share(job["roles"], here):
                log.warning("more vcores were asked for than the %d cores here: shared", here)
        return api.submit([job], on=on)[0]
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _awaited(run: Any) -> Any:
    """Its status at the end. Says when the state changes, as tf-yarn did."""
    state = ""
    while True:
        try:
            return run.wait(POLL)
        except TimeoutError:
            now = run.status.state
            if now != state:
                waiting = run.why() if now not in ("running", "stopping") else None
                log.info("%s is %s%s", run.id, now, f": {waiting.sentence}" if waiting else "")
            state = now


def _failed(run: Any, status: Any) -> RunFailed:
    """With what the failed task said, and its own exception as the cause where it raised one."""
    verdict = status.verdict or {}
    lines = [f"{run.id} {status.state}: {verdict.get('message', '')}".rstrip(": ")]
    lines += [f"  | {line}" for line in verdict.get("last_lines", ())[-15:]]
    lines.append(f"All output: dromon logs {run.id}")
    failed = RunFailed("\n".join(lines))
    try:
        run.results()
    except Exception as error:
        failed.__cause__ = error
    return failed


def get_safe_experiment_fn(full_fn_name: str, *args: Any) -> Callable[[], Any]:
    """A function found by its name in the member: "package.module.function", shipped by `files=`
    or installed there. For functions that cannot be pickled."""
    module, _, function = full_fn_name.rpartition(".")

    def experiment_fn() -> Any:
        return getattr(importlib.import_module(module), function)(*args)

    return experiment_fn


def standalone_client_mode(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: a session of this process cannot drive members that may outlive it."""
    raise Refused(
        "standalone_client_mode cannot be honoured: it needs this process for as long as the job "
        "lives, and TensorFlow 2 has no sessions",
        hint="Put what drives the cluster into experiment_fn and call run_on_yarn.",
    )
