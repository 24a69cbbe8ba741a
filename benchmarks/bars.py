"""The bars of the local engine, each measured beside what it is compared with."""

import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dromon
from benchmarks.measure import Bar, first_line, python_pass, side_by_side, timed
from dromon import api
from dromon.agent import claim
from dromon.agent.record import Record
from dromon.engines.local.engine import LocalEngine

PRINT = [sys.executable, "-c", "print(1)"]
DROMON = str(Path(sys.executable).with_name("dromon"))
QUIET: dict[str, Any] = {
    "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True,
}  # fmt: skip
CORES = len(os.sched_getaffinity(0))


def first_lines(folder: str) -> Iterator[Bar]:
    """From asking to the first line of output, warm."""

    def by_api() -> float:
        start = time.perf_counter()
        run = dromon.run(PRINT)
        next(iter(run.logs()))
        took = time.perf_counter() - start
        run.wait()
        return took

    def command() -> float:
        return first_line([DROMON, "run", "--", *PRINT])

    contenders = {
        "P": python_pass,
        "plain": lambda: first_line(PRINT),
        "api": by_api,
        "cli": command,
    }
    if torchx := shutil.which("torchx"):
        # It does not always print the line before it leaves, so both are timed to their end.
        theirs = [torchx, "run", "--wait", "-s", "local_cwd", "utils.sh", "echo", "1"]
        contenders["torchx"] = timed(partial(subprocess.run, theirs, **QUIET))
        ours = [DROMON, "run", "--", "echo", "1"]
        contenders["cli to its end"] = timed(partial(subprocess.run, ours, **QUIET))
    found = side_by_side(contenders, rounds=15)
    p, plain = found["P"], found["plain"]
    shown = {"P": p * 1e3, "plain": plain * 1e3, "of plain": found["api"] / plain}
    yield Bar("warm API to the first line", found["api"] * 1e3, (plain + 0.7 * p) * 1e3, "ms",
              detail=shown)  # fmt: skip
    shown = {"P": p * 1e3, "plain": plain * 1e3, "of plain": found["cli"] / plain}
    yield Bar("`dromon run` to the first line", found["cli"] * 1e3, (plain + 6 * p) * 1e3, "ms",
              detail=shown)  # fmt: skip
    if "torchx" in found:
        ratio = found["cli to its end"] / found["torchx"]
        yield Bar("`dromon run` beside `torchx run`, to the end", ratio, 0.5, "of torchx",
                  detail={"torchx ms": found["torchx"] * 1e3})  # fmt: skip


def end_seen(folder: str) -> Iterator[Bar]:
    """From the last thing a process does to its submitter knowing that it ended."""
    script = "import os,time; os.write(1, repr(time.time()).encode()); os._exit(0)"

    def once() -> float:
        run = dromon.run([sys.executable, "-c", script])
        run.wait()
        seen = time.time()
        return seen - float(next(iter(run.logs())).text)

    found = side_by_side({"seen": once}, rounds=15)
    yield Bar("end seen after the process exits", found["seen"] * 1e3, 20.0, "ms")


def commands(folder: str) -> Iterator[Bar]:
    def run(*words: str) -> Callable[[], float]:
        return timed(partial(subprocess.run, [DROMON, *words], **QUIET))

    found = side_by_side({"P": python_pass, "help": run("--help"), "ps": run("ps")}, rounds=15)
    p = found["P"]
    yield Bar("`dromon --help`", found["help"] / p, 8.0, "P", detail={"ms": found["help"] * 1e3})
    yield Bar("`dromon ps`", found["ps"] / p, 10.0, "P", detail={"ms": found["ps"] * 1e3})


def many_jobs(folder: str) -> Iterator[Bar]:
    """500 queued jobs of `true`, from the submit to the last end."""
    rates = []
    for _ in range(3):
        start = time.perf_counter()
        runs = dromon.submit([{"command": ["true"], "name": "true"}] * 500)
        for run in reversed(runs):
            run.wait()
        rates.append(500 / (time.perf_counter() - start))
        states = {job.state for job in api.jobs(all=True, limit=500)}
        assert states == {"succeeded"}, states
    yield Bar("500 queued `true` jobs, end to end", statistics.median(rates), 100.0, "jobs/s",
              at_least=True)  # fmt: skip


def submit_many(folder: str) -> Iterator[Bar]:
    """Validated and on disk; a raw SQLite insert of the same bytes at the same batch beside it."""
    blocker = dromon.run(["sleep", "600"], cpus=CORES, name="blocker")
    count = 2000
    raw_path = os.path.join(folder, "raw.db")
    request = json.dumps(api.show(blocker.id)["request"])

    def ours() -> float:
        jobs = [{"command": ["true", str(i)], "name": "queued"} for i in range(count)]
        start = time.perf_counter()
        runs = dromon.submit(jobs)
        took = time.perf_counter() - start
        assert len(runs) == count
        return took

    def raw() -> float:
        db = sqlite3.connect(raw_path, isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, request TEXT)")
        start = time.perf_counter()
        for _ in range(count // 100):
            db.execute("BEGIN")
            for _ in range(100):
                db.execute("INSERT INTO jobs (request) VALUES (?)", (request,))
            db.execute("COMMIT")
        took = time.perf_counter() - start
        db.close()
        return took

    found = side_by_side({"ours": ours, "raw": raw}, rounds=7)
    _stop_all()
    yield Bar("submit([…]) validated and durable", count / found["ours"], 5000.0, "jobs/s",
              at_least=True, detail={"raw SQLite insert": count / found["raw"]})  # fmt: skip


def _stop_all() -> None:
    # The blocker has the lowest number and is stopped last, so that nothing starts meanwhile.
    for job in reversed(api.jobs()):
        api.stop([job.id], grace=0)


def capture(folder: str) -> Iterator[Bar]:
    """Lines of 80 bytes, pipe to file, per second of the agent's processor time."""
    lines = 3_000_000
    script = (
        "import sys,time\nchunk = (b'x' * 79 + b'\\n') * 1000\n"
        f"for _ in range({lines // 1000}): sys.stdout.buffer.write(chunk)\n"
        "sys.stdout.buffer.flush(); time.sleep(1)"
    )
    rates = []
    for _ in range(7):
        run = dromon.run([sys.executable, "-c", script])
        record = Record(LocalEngine().record(run.id))
        while (owner := claim.read(record.run("worker-0", 1))) is None:
            time.sleep(0.01)
        used = 0.0
        while not run.status.is_terminal:
            used = _cpu(owner.pid) or used
            time.sleep(0.05)
        size = os.path.getsize(record.log("worker-0", 1))
        assert size == lines * 80, size
        rates.append(lines / used)
        api.remove([run.id])
    yield Bar("log capture", statistics.median(rates) / 1e6, 1.0, "M lines/s", at_least=True)


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def follower(folder: str) -> Iterator[Bar]:
    """How much later a follower sees a line, at 1,000 lines a second."""
    script = (
        "import time\nstart = time.perf_counter()\n"
        "for i in range(5000):\n"
        "    time.sleep(max(0, start + i / 1000 - time.perf_counter()))\n"
        "    print(repr(time.time()), flush=True)\n"
    )
    late = []
    for line in dromon.run([sys.executable, "-c", script]).logs():
        late.append(time.time() - float(line.text))
    late = sorted(late[100:])
    p99 = late[int(len(late) * 0.99)]
    yield Bar("a follower sees a line (p99)", p99 * 1e3, 50.0, "ms",
              detail={"median": statistics.median(late) * 1e3})  # fmt: skip


def snapshot(folder: str) -> Iterator[Bar]:
    """An unchanged tree of 5,000 files: how long, and how much is stored."""
    from dromon.packaging.snapshot import snapshot as take
    from dromon.storage.blobs import BlobStore

    store = BlobStore(os.path.join(folder, "blobs"))
    index = os.path.join(folder, "index")
    curve = {}
    for files in (1000, 5000, 20000):
        tree = Path(folder, f"tree{files}")
        for i in range(files):
            path = tree / f"d{i % 50}" / f"f{i}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"x = {i}\n")
            os.utime(path, (1e9, 1e9))
        again = partial(take, str(tree), store, index_dir=index)
        again()
        time.sleep(2.1)  # what changed less than two seconds before is read again, as git does
        again()
        curve[files] = side_by_side({"again": timed(again)})["again"] * 1e3
        stored = again().stored
        assert stored == 0, stored
    yield Bar("unchanged snapshot of 5,000 files, 0 bytes", curve[5000], 50.0, "ms",
              detail={f"{n} files": ms for n, ms in curve.items()})  # fmt: skip


def gangs(folder: str) -> Iterator[Bar]:
    """A gang of N `python -c pass`, from the submit to its end, beside N of them bare.

    What a submit costs however small the gang is (the first bar: below one P) weighs on small
    ones; so the bar is held against the larger, and the whole curve is printed. `xargs` says how
    near the machine itself comes to N P/cores: the same 64, as many at once as there are cores.
    """
    command = [sys.executable, "-c", "pass"]
    words = " ".join(map(str, range(64))).encode()
    bare = ["xargs", "-n", "1", "-P", str(CORES), *command]

    def gang(n: int) -> Callable[[], float]:
        return timed(lambda: dromon.run(command, workers=n, cpus=0).wait())

    sizes = (4, 16, 32, 64)
    contenders: dict[str, Callable[[], float]] = {"P": python_pass}
    contenders["xargs"] = timed(partial(subprocess.run, bare, input=words, **QUIET))
    contenders.update({str(n): gang(n) for n in sizes})
    found = side_by_side(contenders, rounds=7)
    curve = {n: found[str(n)] / (n * found["P"] / CORES) for n in sizes}
    floor = found["xargs"] / (64 * found["P"] / CORES)
    detail = {"P ms": found["P"] * 1e3, **{f"N={n}": x for n, x in curve.items()}, "xargs": floor}
    for n in (16, 64):
        yield Bar(f"gang of {n}", curve[n], 1.2, "x N P/cores", detail=detail)


ALL: dict[str, Callable[[str], Iterator[Bar]]] = {
    "first_lines": first_lines,
    "end_seen": end_seen,
    "commands": commands,
    "many_jobs": many_jobs,
    "submit_many": submit_many,
    "capture": capture,
    "follower": follower,
    "snapshot": snapshot,
    "gangs": gangs,
}
