"""`python -m benchmarks.yarnlogs`: the logs of a finished application, read back from real YARN.

An application writes logs as agents do, a NodeManager aggregates them, and they are printed as
`dromon logs` prints them. Uses the cluster of HADOOP_CONF_DIR, else brings up a test bed.
"""

import getpass
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Bar
from dromon.cli.lines import LinePrinter
from dromon.engines.yarn.aggregated import AggregatedLogs
from dromon.hadoop import site as sites
from dromon.observe.logs import Source
from dromon.storage.hdfs import Hdfs

SIZES = (64, 256, 1024)  # megabytes
# Bursts are what a busy pipe gives; single lines are what a patient program prints, here every
# third to stderr. Style -> how many members write so, at the same time.
STYLES = {"bursts": 1, "lines": 1, "lines of 8 members": 8}
USER = getpass.getuser()
WRITER = """
import sys
from dromon.agent.logfile import LogFile
place, size, members, style = sys.argv[1], int(sys.argv[2]) << 20, int(sys.argv[3]), sys.argv[4]
line = b"step %07d  loss 0.482913  accuracy 0.913842  2381.2 images/s  eta 01:02:03\\n"
for member in range(members):
    log, written, number, time = LogFile(place + f"/worker-{member}.0.log"), 0, 0, 1.7e9
    while written < size // members:
        if style == "bursts":
            segments = [(time, 0, b"".join([line % n for n in range(number, number + 800)]))] * 8
            number += 800
        else:
            segments = [(time + n / 1e3, n % 3 == 0, line % (number + n)) for n in range(4000)]
            number += 4000
        log.append(segments)
        written += sum(len(s[2]) for s in segments)
        time += 4
    log.close()
"""


def site_of(conf: str) -> sites.Site:
    files = {path.name: path.read_text() for path in Path(conf).glob("*.xml")}
    return sites.load(files, dict(os.environ), {})


def ask(site: sites.Site, path: str, body: str | None = None) -> bytes:
    url = f"http://{site.get('yarn.resourcemanager.webapp.address')}/ws/v1/cluster/{path}"
    kind = {"Content-Type": "application/xml", "Accept": "application/json"}
    data = None if body is None else body.encode()
    request = urllib.request.Request(f"{url}?user.name={USER}", data, kind)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def run(site: sites.Site, command: str) -> str:
    """An application of one container; returns when its logs are on HDFS."""
    id = str(json.loads(ask(site, "apps/new-application", ""))["application-id"])
    ask(
        site,
        "apps",
        f"<application-submission-context><application-id>{id}</application-id>"
        "<application-name>logs</application-name><max-app-attempts>1</max-app-attempts>"
        "<resource><memory>512</memory><vCores>1</vCores></resource>"
        f"<am-container-spec><commands><command>{command}</command></commands>"
        "</am-container-spec></application-submission-context>",
    )
    while True:
        report = json.loads(ask(site, f"apps/{id}"))["app"]
        if report["logAggregationStatus"] in ("SUCCEEDED", "FAILED"):
            return id
        time.sleep(1)


def read(conf: str, id: str) -> None:
    """What `dromon logs` does once it knows the application."""
    site = site_of(conf)
    logs = AggregatedLogs(Hdfs.connect(site, USER), site, USER, id)
    sources = [Source(member, run, 0) for member, run in logs.runs()]
    printer = LinePrinter(lambda: [source.member for source in sources], split=False, live=False)
    for text in logs.lines(sources).texts(plain=True):
        printer.print_text(text)
    printer.flush()


def measure(conf: str, folder: str) -> Iterator[Bar]:
    site = site_of(conf)
    program = Path(folder, "writer.py")
    program.write_text(WRITER)
    package = Path(sys.modules["dromon"].__file__ or "").parents[1]
    for style, members in STYLES.items():
        speeds, peaks, works = {}, {}, {}
        for size in SIZES:
            words = f"{sys.executable} {program} &lt;LOG_DIR&gt; {size} {members} {style}"
            id = run(site, f"PYTHONPATH={package} {words}")
            assert written(site, id) >= size << 20
            took, peaks[size], works[size] = min(timed_read(conf, id) for _ in range(3))
            speeds[size] = size * 1.048576 / took
            remove(site, id)
        last = SIZES[-1]
        shown: dict[str, float] = {f"{size} MB": speed for size, speed in speeds.items()}
        shown["MB per second of processor"] = last * 1.048576 / works[last]
        yield Bar(f"aggregated logs, {last} MB in {style}", speeds[last], 100.0, "MB/s",
                  at_least=True, detail=shown)  # fmt: skip
        shown = {f"{size} MB": peak for size, peak in peaks.items()}
        yield Bar(f"memory for it beside that for {SIZES[0]} MB", peaks[last] / peaks[SIZES[0]],
                  1.2, "x", detail=shown)  # fmt: skip


def timed_read(conf: str, id: str) -> tuple[float, float, float]:
    """Seconds, the peak of memory in megabytes, and seconds of processor time."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.yarnlogs", "read", conf, id]
    reader = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=Path(__file__).parents[1])
    _, status, usage = os.wait4(reader.pid, 0)
    reader.returncode = os.waitstatus_to_exitcode(status)
    assert reader.returncode == 0
    work = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - begin, usage.ru_maxrss / 1024, work


def written(site: sites.Site, id: str) -> int:
    logs = AggregatedLogs(Hdfs.connect(site, USER), site, USER, id)
    return sum(file.size for file in logs.files() if file.file.endswith(".log"))


def remove(site: sites.Site, id: str) -> None:
    hdfs = Hdfs.connect(site, USER)
    for node in AggregatedLogs(hdfs, site, USER, id).nodes():
        hdfs.delete(os.path.dirname(node.path))


def main() -> int:
    if sys.argv[1:2] == ["read"]:
        read(*sys.argv[2:])
        return 0
    from testbeds.yarn.bed import Bed
    from testbeds.yarn.plan import Options

    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    folder = tempfile.mkdtemp(prefix="dromon-bench-", dir="/tmp")
    bed = None
    conf = os.environ.get("HADOOP_CONF_DIR", "")
    try:
        if not conf:
            bed = Bed(folder, tell=print)
            bed.up(Options(nodes=1))
            conf = bed.plan.conf()
        bars = []
        for bar in measure(conf, folder):
            print(bar.line(), flush=True)
            bars.append(bar)
    finally:
        if bed is not None:
            bed.down()
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(bar.is_met for bar in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
