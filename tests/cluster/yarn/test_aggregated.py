"""Logs that real NodeManagers aggregated, in each format and compression, read without Java."""

import getpass
import json
import os
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
from testbeds.yarn import ready
from testbeds.yarn.bed import Bed
from yarnjobs import PATIENCE

from dromon.engines.yarn.aggregated import AggregatedLogs
from dromon.hadoop import site as sites
from dromon.observe.logs import Source
from dromon.storage.hdfs import Hdfs

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SOURCE = Path(__file__).parents[3] / "src"
# What an agent does, in small: both streams of a member, captured with their times.
AGENT = """
import sys
from dromon.agent.logfile import LogFile
log = LogFile(sys.argv[1] + "/worker-0.0.log")
for n in range(20000):
    log.append([(1000.0 + n, n % 2, b"line %d\\n" % n)])
log.close()
print("sum is", 40 + 2)
"""


def submit(bed: Bed, command: str) -> str:
    """An application of one container, a command. YARN calls it failed, and keeps its logs."""
    web = f"{bed.plan.web('resourcemanager')}/ws/v1/cluster/apps"

    def post(url: str, body: str) -> bytes:
        kind = {"Content-Type": "application/xml", "Accept": "application/json"}
        url = f"{url}?user.name={getpass.getuser()}"
        request = urllib.request.Request(url, body.encode(), kind, method="POST")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())

    id = str(json.loads(post(f"{web}/new-application", ""))["application-id"])
    post(
        web,
        "<application-submission-context>"
        f"<application-id>{id}</application-id><application-name>logs</application-name>"
        f"<am-container-spec><commands><command>{escape(command)}</command></commands>"
        "</am-container-spec><max-app-attempts>1</max-app-attempts>"
        "<resource><memory>256</memory><vCores>1</vCores></resource>"
        "</application-submission-context>",
    )
    return id


def aggregated(bed: Bed, id: str) -> AggregatedLogs:
    """Once the ResourceManager says that every node has uploaded."""
    url = f"{bed.plan.web('resourcemanager')}/ws/v1/cluster/apps/{id}"
    deadline = time.monotonic() + PATIENCE
    while ready.get(url)["app"]["logAggregationStatus"] not in ("SUCCEEDED", "FAILED"):
        assert time.monotonic() < deadline
        time.sleep(0.3)
    files = {path.name: path.read_text() for path in Path(bed.plan.conf()).glob("*.xml")}
    site = sites.load(files, dict(os.environ), {})
    user = getpass.getuser()
    return AggregatedLogs(Hdfs.connect(site, user), site, user, id)


def check(bed: Bed, folder: Path) -> None:
    program = folder / "agent.py"
    program.write_text(AGENT)
    command = f"{sys.executable} {program} <LOG_DIR> 1><LOG_DIR>/stdout 2><LOG_DIR>/stderr"
    id = submit(bed, f"PYTHONPATH={SOURCE} {command}")
    logs = aggregated(bed, id)
    found = {file.file: b"".join(logs.read(file)) for file in logs.files()}
    assert logs.problems == []
    assert logs.is_complete
    assert found["stdout"] == b"sum is 42\n", found
    assert {"worker-0.0.log", "worker-0.0.log.index", "launch_container.sh"} <= set(found)
    assert {file.container.rpartition("_")[0] for file in logs.files()} == {
        f"container_{id.removeprefix('application_')}_01"
    }

    assert logs.runs() == [("worker-0", 0)]
    source = [Source("worker-0", 0, 0)]
    lines: list[Any] = list(logs.lines(source))
    assert [line.text for line in lines] == [f"line {n}" for n in range(20000)]
    assert [line.time for line in lines] == [1000.0 + n for n in range(20000)]
    assert {line.stream for line in lines[1::2]} == {"err"}
    assert [line.text for line in logs.lines(source, tail=2)] == ["line 19998", "line 19999"]
    assert [line.text for line in logs.lines(source, since=20998.5)] == ["line 19999"]


def test_tfile_as_every_cluster_writes_it_by_default(bed: Bed, tmp_path: Path) -> None:
    check(bed, tmp_path)


def test_the_indexed_format_compressed(bare: Bed, tmp_path: Path) -> None:
    """TFiles that are compressed are what the contract suite's bed writes."""
    check(bare, tmp_path)
