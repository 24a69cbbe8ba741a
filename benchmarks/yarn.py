"""`python -m benchmarks.yarn`: what a job on YARN costs, on a test bed brought up for it.

The ApplicationMaster's memory and its processor time while 200 members run, what an unchanged
submit uploads, and what a gang adds to the time its containers take to come up.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbeds.yarn.bed import Bed
from testbeds.yarn.plan import Options

from benchmarks.measure import Bar
from dromon.contexts.file import Context
from dromon.engines.yarn.engine import YarnEngine

MEMBERS = 200
IDLE = 30.0  # seconds
GANGS = (10, 25, 50)
BEAT = 0.5  # seconds between two beats of a node on the bed
# Far more room than there is: nearly all that is started here sleeps.
SETTINGS = {
    "yarn.nodemanager.resource.memory-mb": "32768",
    "yarn.nodemanager.resource.cpu-vcores": "256",
    "yarn.scheduler.minimum-allocation-mb": "32",
    "yarn.scheduler.maximum-allocation-mb": "32768",
    "yarn.nodemanager.pmem-check-enabled": "false",
}


def submit(engine: YarnEngine, work: str, progress: Any = None, **job: Any) -> str:
    data = {
        "name": "job",
        "resources": {"cpus": 1, "memory": "1MiB"},
        "gang_wait": "10m",
        "yarn": {"python": sys.executable},
        **job,
    }
    asked = {"cwd": work, "environ": dict(os.environ), "data": data}
    return str(engine.start(asked, progress)["id"])


def until_running(engine: YarnEngine, ref: str) -> None:
    while (status := engine.status(ref)).state != "running" or any(
        not member.pid for member in status.members
    ):
        assert not status.is_terminal, status.verdict
        time.sleep(0.5)


def master_of(engine: YarnEngine, ref: str) -> int:
    """The process of the job's ApplicationMaster; the bed's nodes are this machine."""
    number = str(engine.show(ref)["application"]).partition("_")[2].encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line, environ = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue
        if line.endswith(b"light.pyz\0yarn-master\0") and number in environ:
            found.append(int(folder.name))
    return min(found)


def resident(pid: int) -> float:
    """Megabytes."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def worked(pid: int) -> float:
    """Seconds of processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle_master(engine: YarnEngine, work: str) -> Iterator[Bar]:
    ref = submit(engine, work, replicas=MEMBERS, command="exec sleep 3600")
    until_running(engine, ref)
    pid = master_of(engine, ref)
    time.sleep(10)  # whoever came last has settled
    before, begin = worked(pid), time.monotonic()
    time.sleep(IDLE)
    share = 100 * (worked(pid) - before) / (time.monotonic() - begin)
    peak = resident(pid)
    engine.stop(ref, 0)
    engine.wait(ref)
    yield Bar(f"master of {MEMBERS} members, resident", peak, 60.0, "MB")
    yield Bar(f"master of {MEMBERS} members, idle", share, 1.0, "% of a core")


def unchanged(engine: YarnEngine, work: str) -> Iterator[Bar]:
    Path(work, "data.bin").write_bytes(os.urandom(4 << 20))
    sent: dict[str, int] = {}

    def count(what: str, done: int, total: int) -> None:
        if what.startswith("uploading"):
            sent[what] = done

    def stored() -> int:
        hdfs, place = engine.hdfs, engine.staging.blobs
        if hdfs.stat(place) is None:
            return 0
        return sum(status.length for _, status in hdfs.list(place))

    first = 0
    for turn in range(2):
        sent.clear()
        before = stored()
        ref = submit(engine, work, count, command="true")
        engine.wait(ref)
        grown = stored() - before
        if turn == 0:
            first = grown
            assert first > 4 << 20
    yield Bar("unchanged submit uploads", float(max(grown, sum(sent.values()))), 0.0, "bytes",
              detail={"first": first})  # fmt: skip


def gangs(engine: YarnEngine, work: str) -> Iterator[Bar]:
    """Nodes start containers one after another; what the gang itself adds is from when the last
    agent has come to when the last member runs."""
    coming, adding = {}, {}
    for size in GANGS:
        rounds = []
        for _ in range(3):
            ref = submit(engine, work, replicas=size, command="exec sleep 3600")
            until_running(engine, ref)
            moments: dict[str, list[float]] = {}
            for event in engine.show(ref)["timeline"]:
                moments.setdefault(event["event"], []).append(event["time"])
            ready, started = moments["MemberReady"], moments["MemberStarted"]
            assert len(ready) == len(started) == size
            rounds.append((max(started) - max(ready), max(ready) - min(ready)))
            engine.stop(ref, 0)
            engine.wait(ref)
        adding[size], coming[size] = sorted(rounds)[1]
    last = GANGS[-1]
    shown = {f"N={size}": seconds for size, seconds in adding.items()}
    shown.update({f"agents of {size} came in": seconds for size, seconds in coming.items()})
    yield Bar(f"gang of {last}: all run after all could", adding[last], BEAT, "s", detail=shown)
    each = {size: coming[size] / size for size in GANGS}
    yield Bar("cost of a member, beside that in the smallest gang", each[last] / each[GANGS[0]],
              1.5, "x", detail={f"N={n}: ms": 1e3 * x for n, x in each.items()})  # fmt: skip


def main() -> int:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    folder = tempfile.mkdtemp(prefix="dromon-bench-", dir="/tmp")
    work = os.path.join(folder, "work")
    os.mkdir(work)
    bed = Bed(os.path.join(folder, "bed"), tell=print)
    bars = []
    try:
        bed.up(Options(settings=SETTINGS))
        context = Context("bed", "yarn", bed.plan.conf())
        engine = YarnEngine(context, os.path.join(folder, "home"))
        for measure in (unchanged, gangs, idle_master):
            if sys.argv[1:] and measure.__name__ not in sys.argv[1:]:
                continue
            for bar in measure(engine, work):
                print(bar.line(), flush=True)
                bars.append(bar)
        engine.close()
    finally:
        bed.down()
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(bar.is_met for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
