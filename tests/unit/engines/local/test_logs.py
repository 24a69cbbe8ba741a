"""Following a job's logs: from the record, until the daemon says that it is over."""

import os
import signal
import threading
import time

from dromon.engines.local.logs import lines

TWO = "for i in 1 2 3; do echo $DROMON_RANK-$i; done; echo oops >&2"


def texts(engine, id: str, **options: object) -> list[str]:
    given = {"follow": False, **options}
    return [line.text for line in lines(engine.client, id, **given)]


def test_following_gives_every_line_and_ends_with_the_job(local, jobs):
    id = jobs.run("for i in 1 2 3; do echo $i; sleep 0.1; done")
    assert texts(local, id, follow=True) == ["1", "2", "3"]
    assert local.status(id).is_terminal


def test_following_starts_before_the_job_does(local, jobs):
    first = jobs.run("sleep 60", resources={"cpus": float(len(os.sched_getaffinity(0)))})
    second = jobs.run("echo here")
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.extend(texts(local, second, follow=True)))
    reader.start()
    local.stop(first, 0.0)
    reader.join(60)
    assert seen == ["here"]


def test_ranks_members_and_streams_are_told_apart(local, jobs):
    id = jobs.run(TWO, replicas=2, resources={"cpus": 0})
    local.wait(id, 60)
    assert sorted(texts(local, id, ranks=frozenset({1}))) == ["1-1", "1-2", "1-3", "oops"]
    assert texts(local, id, members=frozenset({"worker-0"}))[0] == "0-1"
    assert texts(local, id, ranks=frozenset({7})) == []
    everything = list(lines(local.client, id, follow=False))
    assert [line.time for line in everything] == sorted(line.time for line in everything)
    assert [line.stream for line in everything].count("err") == 2


def test_the_tail_is_of_each_member(local, jobs):
    id = jobs.run("for i in 1 2 3; do echo $DROMON_RANK-$i; done", replicas=2,
                  resources={"cpus": 0})  # fmt: skip
    local.wait(id, 60)
    assert sorted(texts(local, id, tail=1)) == ["0-3", "1-3"]
    assert texts(local, id, tail=0) == []


def test_since_a_time_nothing_older_is_told(local, jobs):
    id = jobs.run("echo early; sleep 0.3; echo late; echo last")
    local.wait(id, 60)
    times = {line.text: line.time for line in lines(local.client, id, follow=False)}
    assert texts(local, id, since=times["late"]) == ["late", "last"]
    assert texts(local, id, since=times["late"], tail=1) == ["last"]
    assert texts(local, id, since=time.time() + 60) == []


def test_all_attempts_or_the_last_one_only(local, jobs):
    command = "echo attempt $DROMON_ATTEMPT; exit $((2 - DROMON_ATTEMPT))"
    id = jobs.run(command, retries={"max": 1, "backoff": "0s"})
    assert local.wait(id, 60).state == "succeeded"
    assert texts(local, id) == ["attempt 1", "attempt 2"]
    assert texts(local, id, every_run=False) == ["attempt 2"]


def test_a_line_without_an_end_and_bytes_that_are_no_text_are_told(local, jobs):
    id = jobs.run(r"printf 'caf\xe9\nno newline'")
    local.wait(id, 60)
    assert texts(local, id) == ["caf�", "no newline"]


def test_a_follower_outlives_the_daemon(local, jobs):
    id = jobs.run("echo one; sleep 1; echo two")
    follower = lines(local.client, id, follow=True)
    assert next(follower).text == "one"
    os.kill(int(local.client.ask("daemon_status")["pid"]), signal.SIGKILL)
    assert [line.text for line in follower] == ["two"]
    assert local.status(id).state == "succeeded"


def test_reading_leaves_no_file_open(local, jobs):
    id = jobs.run("echo hi")
    local.wait(id, 60)
    texts(local, id)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert texts(local, id) == ["hi"]
    assert len(os.listdir("/proc/self/fd")) <= before
