"""What members print is kept: complete, in order, with its rank."""

import itertools


def test_every_line_of_every_rank_arrives_in_order(bench):
    ref = bench.run("for i in range(2000): print(rank, i)", replicas=3)
    assert bench.ended(ref).state == "succeeded"
    lines = list(bench.engine.logs(ref, follow=False))
    for rank in range(3):
        of_rank = [line.text for line in lines if line.rank == rank]
        assert of_rank == [f"{rank} {i}" for i in range(2000)]
    assert {(line.rank, line.member) for line in lines} == {(r, f"worker-{r}") for r in range(3)}


def test_times_never_run_backwards_within_a_member(bench):
    ref = bench.run("for i in range(3): say(i); time.sleep(0.05)")
    bench.ended(ref)
    times = [line.time for line in bench.engine.logs(ref, follow=False)]
    assert times[0] > 0
    assert all(a <= b for a, b in itertools.pairwise(times))


def test_output_and_errors_are_told_apart(bench):
    ref = bench.run("print('one', flush=True); print('two', file=sys.stderr, flush=True)")
    bench.ended(ref)
    lines = {(line.stream, line.text) for line in bench.engine.logs(ref, follow=False)}
    assert lines == {("out", "one"), ("err", "two")}


def test_bytes_that_are_no_text_do_not_break_the_lines_around_them(bench):
    ref = bench.run(r"sys.stdout.buffer.write(b'before\n\xff\xfe\x80 raw\nafter \xe2\x82\xac\n')")
    assert bench.ended(ref).state == "succeeded"
    before, raw, after = bench.texts(ref)
    assert (before, after) == ("before", "after €")
    assert raw.endswith(" raw")


def test_a_last_line_without_an_end_is_not_lost(bench):
    ref = bench.run("sys.stdout.write('first\\nno end'); sys.stdout.flush()")
    bench.ended(ref)
    assert bench.texts(ref) == ["first", "no end"]


def test_what_a_crash_printed_is_kept(bench):
    ref = bench.run("say('about to fail'); raise ValueError('the reason')")
    assert bench.ended(ref).state == "failed"
    texts = bench.texts(ref)
    assert texts[0] == "about to fail"
    assert texts[-1] == "ValueError: the reason"


def test_a_follower_sees_lines_while_the_member_runs_and_ends_with_it(bench):
    # The member ends only because the follower has seen its first line.
    ref = bench.run(
        "signal.signal(signal.SIGTERM, lambda *_: (say('last'), sys.exit(0)))\n"
        "say('first'); time.sleep(600)"
    )
    followed = []
    for line in bench.engine.logs(ref, follow=True):
        followed.append(line.text)
        if line.text == "first":
            bench.engine.stop(ref)
    assert followed == ["first", "last"]
    assert bench.ended(ref).state == "stopped"


def test_a_follower_may_come_before_the_job_runs(bench):
    holder = bench.fill()
    ref = bench.run("say('at last')")
    assert bench.waits(ref)
    lines = bench.engine.logs(ref, follow=True)
    bench.engine.stop(holder, 0)
    assert [line.text for line in lines] == ["at last"]


def test_lines_of_every_attempt_are_kept_apart_by_run(bench):
    ref = bench.run(
        "say('attempt', attempt); sys.exit(attempt == 1)", retries={"max": 1, "backoff": "0s"}
    )
    assert bench.ended(ref).state == "succeeded"
    lines = list(bench.engine.logs(ref, follow=False))
    assert [line.text for line in lines] == ["attempt 1", "attempt 2"]
    assert lines[0].run < lines[1].run


def test_lines_of_a_member_that_the_last_attempt_had_no_room_for_are_still_told(bench):
    elastic = bench.run(
        "say('up', attempt)\nif attempt == 1: time.sleep(600)",
        replicas=2,
        min=1,
        gang_wait="3s",
        stop_grace="500ms",
        resources={"cpus": bench.cpus / 2},
        priority=1,
    )
    bench.has_said(elastic, "up 1", times=2)
    bench.run("time.sleep(600)", resources={"cpus": bench.cpus / 2}, priority=9)
    assert bench.ended(elastic).state == "succeeded", bench.told(elastic)
    assert bench.by_member(elastic) == {"worker-0": ["up 1", "up 2"], "worker-1": ["up 1"]}
