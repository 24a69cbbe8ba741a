"""A bed that goes, with whatever its killed nodes have left running, and leaves another alone."""

import os
from pathlib import Path

import pytest
from testbeds import process
from testbeds.yarn import distributed_shell, ready
from testbeds.yarn.bed import Bed
from yarnjobs import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def living(bed: Bed) -> list[str]:
    """Command lines of processes that name the bed's directory there or in their environment."""
    found = []
    needle = os.fsencode(bed.dir)
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = Path(entry.path, "cmdline").read_bytes()
                if needle in command or needle in Path(entry.path, "environ").read_bytes():
                    found.append(command.replace(b"\0", b" ").decode())
            except OSError:  # ended meanwhile
                continue
    return found


def test_a_second_bed_expires_recovers_and_goes_with_its_orphans(second: Bed, bed: Bed) -> None:
    finished = distributed_shell.run(second, "true")
    assert finished.succeeded, finished.said

    second.kill("resourcemanager")
    second.start("resourcemanager")
    report = f"{second.plan.web('resourcemanager')}/ws/v1/cluster/apps/{finished.id}"
    assert ready.get(report)["app"]["finalStatus"] == "SUCCEEDED"

    mark = f"{second.dir}/data/"

    def sleeping() -> bool:
        commands = [
            Path(f"/proc/{p.pid}/cmdline").read_bytes()
            for p in process.inheriting("LOCAL_DIRS", mark)
            if p.is_alive
        ]
        return any(command.startswith(b"sleep\x004321") for command in commands)

    client = distributed_shell.start(second, "sleep 4321")
    try:
        assert until(sleeping)
        for daemon in second.plan.nodes:
            second.kill(daemon)
        assert until(lambda: {n["state"] for n in ready.nodes(second.plan)} == {"LOST"})
        assert sleeping(), "a killed NodeManager leaves its containers running"
    finally:
        client.kill()
        client.communicate()
    # Down ends every process, and only those.
    assert len(living(second)) >= len(second.plan.daemons) - len(second.plan.nodes)
    second.down()
    assert living(second) == []
    assert not os.path.exists(second.plan.data("namenode"))
    assert all(bed.is_alive(name) for name in bed.plan.daemons)
