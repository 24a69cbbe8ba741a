import pytest

from dromon.engines.yarn.am import exits
from dromon.hadoop.messages.enums import ExitStatus
from dromon.lifecycle import events, verdict
from dromon.lifecycle.verdict import Exit

STDERR = (
    "[2026-11-15 14:19:17.690]Exception from container-launch.\n"
    "Container id: container_1794751597735_0010_01_000002\nExit code: {code}\n\n"
    "[2026-11-15 14:19:17.711]Container exited with a non-zero exit code {code}. "
    "Error file: prelaunch.err.\nLast 4096 bytes of prelaunch.err :\n"
    "Last 4096 bytes of stderr :\n{text}\n\n\n"
    "[2026-11-15 14:19:17.711]Container exited with a non-zero exit code {code}. "
    "Error file: prelaunch.err.\nLast 4096 bytes of prelaunch.err :\n"
    "Last 4096 bytes of stderr :\n{text}\n\n\n"
)
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 3, in <module>\n'
    "    main()\n"
    "ValueError: no data"
)
OVER_MEMORY = (
    "[2026-11-15 14:19:17.690]Container [pid=123,containerID=container_1_0001_01_000002] is "
    "running 104857600B beyond the 'PHYSICAL' memory limit. Current usage: 612.3 MB of 512 MB "
    "physical memory used; 2.9 GB of 1.1 GB virtual memory used. Killing container.\n"
    "Dump of the process-tree for container_1_0001_01_000002 :\n"
)
CHANGED = (
    "[2026-11-15 14:19:17.690]Resource hdfs://nn:9000/user/a/.dromon/blobs/x.tar.gz changed on "
    'src filesystem - expected: "2026-11-15T14:19:17.690+0000", was: "2026", current time: …\n'
)


def test_nought_is_done():
    ending = exits.read(0)
    assert (ending.kind, ending.code, ending.counts) == (exits.DONE, 0, False)
    assert ending.event("worker-0", 2) == events.MemberExited("worker-0", 2, Exit(code=0).to_json())


def test_a_failure_says_the_python_error_and_quotes_standard_error():
    ending = exits.read(3, STDERR.format(code=3, text=TRACEBACK))
    assert (ending.kind, ending.code, ending.message) == (exits.FAILED, 3, "ValueError: no data")
    assert ending.last_lines == tuple(TRACEBACK.splitlines())
    assert ending.cause == verdict.USER_ERROR
    assert ending.counts


def test_a_failure_without_a_word_says_its_code():
    assert exits.read(3, "").message == "exited with code 3"


def test_a_missing_program_is_named():
    ending = exits.read(127, STDERR.format(code=127, text="/bin/bash: line 1: nope: not found"))
    assert ending.message == "no such program: /bin/bash: line 1: nope: not found"


def test_python_out_of_memory_is_out_of_memory():
    text = TRACEBACK.replace("ValueError: no data", "MemoryError")
    ending = exits.read(1, STDERR.format(code=1, text=text))
    assert (ending.kind, ending.cause) == (exits.OUT_OF_MEMORY, verdict.OUT_OF_MEMORY)
    assert ending.code == 1


@pytest.mark.parametrize(("status", "name"), [(137, "SIGKILL"), (143, "SIGTERM"), (139, "SIGSEGV")])
def test_a_signal_is_named(status, name):
    ending = exits.read(status, "")
    assert ending.kind == exits.FAILED
    assert ending.signal == status - 128
    assert ending.code is None
    assert ending.message == f"its container was killed by {name}"


def test_a_kill_by_the_kernel_for_memory_is_out_of_memory():
    ending = exits.read(137, "Container container_1 is under oom")
    assert ending.kind == exits.OUT_OF_MEMORY
    assert "kernel" in ending.message


def test_over_its_memory_tells_how_much_and_what_to_do():
    ending = exits.read(ExitStatus.KILLED_EXCEEDED_PMEM, OVER_MEMORY)
    assert ending.kind == exits.OUT_OF_MEMORY
    assert ending.words == (
        "its container was over its memory limit (612.3 MB of 512 MB) and was killed by YARN;"
        " ask for more under resources.memory"
    )
    record = ending.event("worker-1", 0, ended=5.0)
    assert isinstance(record, events.MemberExited)
    assert (record.record.cause, record.record.signal) == (verdict.OUT_OF_MEMORY, 9)
    assert record.record.ended == 5.0


def test_over_its_virtual_memory_tells_that_figure():
    ending = exits.read(ExitStatus.KILLED_EXCEEDED_VMEM, OVER_MEMORY)
    assert "virtual memory limit (2.9 GB of 1.1 GB)" in ending.message
    assert "vmem-check" in ending.hint


def test_figures_that_are_not_there_are_not_made_up():
    ending = exits.read(ExitStatus.KILLED_EXCEEDED_PMEM, "")
    assert ending.message == "its container was over its memory limit and was killed by YARN"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("Container released by application", exits.RELEASED, "given back"),
        ("Container of a completed application", exits.RELEASED, "given back"),
        ("Container released on a *lost* node", exits.LOST, "its node is lost"),
        ("Container expired since it was unused", exits.LOST, "not started in time"),
        ("Something new", exits.LOST, "its container is gone: Something new"),
        ("N/A", exits.LOST, "its container is gone"),
    ],
)
def test_aborted_has_several_meanings(text, kind, words):
    ending = exits.read(ExitStatus.ABORTED, text)
    assert ending.kind == kind
    assert words in ending.message
    assert not ending.counts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (CHANGED, "blobs/x.tar.gz has changed since the job was submitted"),
        ("File does not exist: hdfs://nn:9000/x.tar.gz\n\tat …", "hdfs://nn:9000/x.tar.gz is gone"),
        (
            "Permission denied: user=bob, access=READ, inode=/x",
            "permission denied: user=bob, access=READ, inode=/x",
        ),
        ("[2026-11-15 14:19:17.690]Disk on fire", "Disk on fire"),
        ("", "YARN does not say why"),
    ],
)
def test_files_that_cannot_be_brought_are_a_matter_of_the_environment(text, words):
    ending = exits.read(ExitStatus.INVALID, text)
    assert (ending.kind, ending.cause) == (exits.ENVIRONMENT, verdict.ENVIRONMENT)
    assert ending.message.endswith(words)
    assert ending.counts
    assert ending.code is None
    assert ending.signal is None


def test_no_status_of_a_container_that_is_not_over_means_anything():
    assert exits.read(ExitStatus.INVALID, complete=False).kind == exits.LOST


@pytest.mark.parametrize(
    ("status", "kind", "event"),
    [
        (ExitStatus.DISKS_FAILED, exits.LOST, events.MemberLost),
        (ExitStatus.PREEMPTED, exits.EVICTED, events.MemberEvicted),
        (ExitStatus.KILLED_BY_APPMASTER, exits.KILLED, events.MemberExited),
        (ExitStatus.KILLED_BY_RESOURCEMANAGER, exits.EVICTED, events.MemberEvicted),
        (ExitStatus.KILLED_AFTER_APP_COMPLETION, exits.LOST, events.MemberLost),
        (ExitStatus.KILLED_BY_CONTAINER_SCHEDULER, exits.EVICTED, events.MemberEvicted),
    ],
)
def test_what_was_done_to_a_container_does_not_count_against_it(status, kind, event):
    ending = exits.read(status, "Container killed.")
    assert ending.kind == kind
    assert not ending.counts
    told = ending.event("worker-0", 1)
    assert type(told) is event
    if isinstance(told, events.MemberExited):
        assert told.record.stopped
        assert told.record.cause == verdict.STOPPED


def test_too_much_log_is_the_jobs_own_fault():
    ending = exits.read(ExitStatus.KILLED_FOR_EXCESS_LOGS, "")
    assert ending.kind == exits.FAILED
    assert ending.counts
    assert "more log" in ending.message


def test_a_status_nobody_knows_is_told_with_its_words():
    ending = exits.read(-42, "[2026-11-15 14:19:17.690]Flux capacitor empty\n")
    assert ending.cause == verdict.INTERNAL
    assert ending.message == "its container could not be run (status -42): Flux capacitor empty"


@pytest.mark.parametrize("status", [*ExitStatus, -1, -1000, 1, 22, 127, 130, 137, 143, 255])
def test_every_status_has_words_and_an_event(status):
    ending = exits.read(int(status), "")
    assert ending.message or ending.kind == exits.DONE
    assert ending.event("worker-0", 0) is not None
    assert ending.cause
