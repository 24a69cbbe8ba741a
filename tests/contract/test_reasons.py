"""Why a job does not run yet."""

import time


def test_a_running_job_waits_for_nothing(bench):
    ref = bench.run("say('up'); time.sleep(600)")
    bench.has_said(ref, "up")
    bench.runs(ref)
    assert bench.until(lambda: bench.engine.why(ref) is None), bench.engine.why(ref)


def test_an_ended_job_waits_for_nothing(bench):
    ref = bench.run("say('done')")
    bench.ended(ref)
    assert bench.engine.why(ref) is None


def test_a_waiting_job_names_who_holds_what_it_needs(bench):
    holder = bench.fill()
    ref = bench.run("say('in')", resources={"cpus": 1})
    waiting = bench.waits_for(ref, holder)
    assert waiting.reason == "resources"
    assert holder in waiting.sentence
    assert waiting.missing.get("cpus", 0) > 0
    assert "cpu" in waiting.sentence.lower()


def test_a_second_in_line_is_told_its_place(bench):
    bench.fill()
    first = bench.run("say('in')", resources={"cpus": bench.cpus})
    time.sleep(bench.tick)
    second = bench.run("say('in')", resources={"cpus": bench.cpus})
    assert bench.waits(first)
    assert bench.waits(second)

    def places():
        return [bench.engine.why(ref).position for ref in (first, second)]

    assert bench.until(lambda: places()[0] < places()[1]), places()


def test_a_more_important_job_overtakes_those_that_wait(bench):
    holder = bench.fill()
    whole = {"cpus": bench.cpus}
    low = bench.run("say(time.time())", resources=whole, priority=1)
    high = bench.run("say(time.time())", resources=whole, priority=5)
    assert bench.waits(low)
    assert bench.waits(high)
    bench.engine.stop(holder, 0)
    bench.ended(low)
    bench.ended(high)
    assert float(bench.texts(high)[0]) < float(bench.texts(low)[0])


def test_a_job_between_attempts_says_that_it_backs_off(bench):
    ref = bench.run("sys.exit(1)", retries={"max": 1, "backoff": "1h"})
    assert bench.until(lambda: bench.engine.status(ref).state == "restarting")

    def backs_off():
        waiting = bench.engine.why(ref)
        return waiting is not None and waiting.reason == "backoff"

    assert bench.until(backs_off), bench.engine.why(ref)
