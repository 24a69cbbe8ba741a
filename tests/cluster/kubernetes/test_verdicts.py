"""How jobs end that no coordinator can speak for: told apart by their pods alone."""

from collections.abc import Iterator

import pytest
from plainjobs import Site
from testbeds.kubernetes.bed import Bed

from dromon.engines.kubernetes import volcano
from dromon.engines.kubernetes.calls import command

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

HOG = "x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1"


@pytest.fixture
def site(bed: Bed) -> Iterator[Site]:
    made = Site(bed)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("program", "cause", "words"),
    [
        (["python3", "-c", HOG], "out_of_memory",
         "worker-0 was killed by SIGKILL: out of memory, with a limit of 16.0 MiB of memory"),
        (["python3", "-c", "raise SystemExit(3)"], "user_error",
         "worker-0 failed with exit code 3"),
        (["sh", "-c", "python3 -c 'import os; os.abort()'; exit $?"], "user_error",
         "worker-0 was killed by SIGABRT"),
        (["python9"], "environment",
         'worker-0 could not start: exec: "python9": executable file not found in $PATH'),
        (["true"], "success", "succeeded"),
    ],
)  # fmt: skip
def test_ends_are_told_apart(site: Site, program: list[str], cause: str, words: str) -> None:
    found = site.ended(site.submit("one", container={"command": program}))
    assert found.verdict is not None
    assert (found.verdict["cause"], found.verdict["message"]) == (cause, words)


def test_the_first_that_failed_is_named(site: Site) -> None:
    program = (
        "import os, time\n"
        "if os.environ['VC_TASK_INDEX'] == '1': raise SystemExit(5)\n"
        "time.sleep(600)"
    )
    main = {"command": ["python3", "-c", program]}
    ends = [{"exitCode": 5, "action": "TerminateJob"}]
    name = site.submit("two", replicas=2, container=main, plugins={"env": []}, policies=ends)
    found = site.ended(name)
    assert found.verdict is not None
    assert (found.state, found.verdict["member"], found.verdict["rank"]) == (
        "failed",
        "worker-1",
        1,
    )
    assert found.verdict["code"] == 5


def test_a_job_terminated_from_outside_was_stopped(site: Site) -> None:
    name = site.submit("halted")
    site.running(name)
    job = site.api.read(volcano.JOB, site.namespace, name)
    assert job is not None
    site.send(command(job, "TerminateJob").body)
    found = site.ended(name)
    assert found.verdict is not None
    assert (found.state, found.verdict["cause"]) == ("stopped", "stopped")
