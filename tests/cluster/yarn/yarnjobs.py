"""Jobs on a bed: an engine for it, small jobs, what is seen of them, and their processes.

Nodes use their own Python here, so that no environment has to be shipped.
"""

import contextlib
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from testbeds import process
from testbeds.yarn.bed import Bed

from dromon.contexts.file import Context
from dromon.engines.base import JobStatus
from dromon.engines.yarn.engine import YarnEngine

# What every member's script starts with.
PREAMBLE = """\
import json, os, signal, sys, time
rank = int(os.environ["DROMON_RANK"])
attempt = int(os.environ["DROMON_ATTEMPT"])
me = os.environ["DROMON_ROLE"] + "-" + os.environ["DROMON_INDEX"]
def say(*words):
    print(*words, flush=True)
def path(name):
    return os.path.join(os.environ["DROMON_CHECKPOINT_DIR"], name)
"""
SMALL = {"cpus": 1, "memory": "64MiB"}
NODE = {"python": sys.executable, "master": {"memory": 128}}
# Seconds; a machine may have other work.
PATIENCE = float(os.environ.get("DROMON_TEST_PATIENCE", "180"))


def engine(bed: Bed, home: Path | str, **context: Any) -> YarnEngine:
    """A client of the bed; `context`: user=, shared=, queue= …"""
    return YarnEngine(Context("bed", "yarn", bed.plan.conf(), **context), str(home))


def request(script: str | None = None, **job: Any) -> dict[str, Any]:
    """What `engine.start` takes. A script is Python, after the preamble; roles without one of
    their own run it too, and ask for little."""
    plain: dict[str, Any] = {"resources": SMALL}
    if script is not None:
        plain["command"] = [sys.executable, "-S", "-c", PREAMBLE + textwrap.dedent(script)]
    if "roles" in job:
        job["roles"] = {name: {**plain, **role} for name, role in job["roles"].items()}
    else:
        job = {**plain, **job}
    job["yarn"] = {**NODE, **job.get("yarn", {})}
    return {
        "cwd": tempfile.mkdtemp(prefix="dromon-work-", dir="/tmp"),
        "environ": dict(os.environ),
        "data": {"name": "job", **job},
    }


def run(engine: YarnEngine, script: str | None = None, **job: Any) -> str:
    """Submitted: its id."""
    return start(engine, request(script, **job))


def start(engine: YarnEngine, asked: dict[str, Any]) -> str:
    """The same of a request that was changed."""
    try:
        return str(engine.start(asked)["id"])
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(asked["cwd"])


def until(condition: Callable[[], Any], timeout: float = PATIENCE, every: float = 0.1) -> Any:
    """What the condition gives once it is true, or what it gave last."""
    deadline = time.monotonic() + timeout
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(every)
    return found


def ended(engine: YarnEngine, ref: str, timeout: float = PATIENCE) -> JobStatus:
    assert until(lambda: engine.status(ref).is_terminal, timeout), told(engine, ref)
    return engine.status(ref)


def texts(engine: YarnEngine, ref: str) -> list[str]:
    return [line.text for line in engine.logs(ref, follow=False)]


def has_said(engine: YarnEngine, ref: str, text: str, times: int = 1) -> None:
    def enough() -> bool:
        return texts(engine, ref).count(text) >= times or engine.status(ref).is_terminal

    until(enough)
    assert texts(engine, ref).count(text) >= times, told(engine, ref)


def told(engine: YarnEngine, ref: str) -> str:
    """All there is to say about a job, for a failed assertion."""
    lines = [f"{line.member}#{line.run}: {line.text}" for line in engine.logs(ref, follow=False)]
    return "\n".join([repr(engine.status(ref)), repr(engine.why(ref)), *lines[-50:]])


def application(engine: YarnEngine, ref: str) -> str:
    return engine._report(ref).id


def processes(mark: str) -> dict[int, tuple[str, bytes]]:
    """Living processes with these words in their environment: pid -> command line, environment."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environ = (folder / "environ").read_bytes()
            if mark.encode() in environ:
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
                found[int(folder.name)] = (command, environ)
    return found


def process_of(engine: YarnEngine, ref: str, words: str) -> int:
    """The outermost process of a container: `yarn-master`, or `yarn-member\\0worker-0`."""
    mark = application(engine, ref).replace("application_", "_")
    named = [pid for pid, (line, _) in processes(mark).items() if f"{words}\0" in line]
    return process.by_age(named)[0]


def stop_all(engine: YarnEngine) -> None:
    """Nothing of one test is left for the next."""
    from dromon.engines.base import Filter

    for status in engine.list(Filter()):
        engine.manager.kill(engine._report(status.id).id)
    assert until(lambda: not engine.list(Filter())), engine.list(Filter())


def mapping(environ: bytes) -> Mapping[str, str]:
    pairs = (item.partition(b"=") for item in environ.split(b"\0") if item)
    return {k.decode(errors="replace"): v.decode(errors="replace") for k, _, v in pairs}
