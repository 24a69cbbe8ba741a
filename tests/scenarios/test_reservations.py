"""A reservation: kept for its queue, passed by what ends in time, over when it is over."""

import time

SITE = """\
queues: {{demo: , research: }}
reservations:
  friday: {{start: {start}, end: {end}, gpus: 2, queue: demo}}
"""


def test_a_reservation_that_is_to_come(machine, at):
    box = machine(2, SITE.format(start=at(1800), end=at(3600)))
    box.submit("endless", queue="research")
    assert "friday" in box.waits("endless", "reservation").sentence
    box.submit("short", queue="research", max_duration="10m")
    box.until("short", "running")  # over before it begins
    box.submit("demo", queue="demo")
    box.until("demo", "running")
    assert box.states("endless") == ["queued"]
    box.finish("short", "demo")


def test_a_reservation_under_way_ends_by_itself(machine, at):
    box = machine(2, "queues: {demo: , research: }\n")
    box.submit("demo", queue="demo")
    box.until("demo", "running")
    box.site.write_text(SITE.format(start=at(-60), end=at(6)))  # read without a restart
    while box.engine.queue_history(1)[0]["version"] == 1:
        time.sleep(0.05)
    box.submit("others", queue="research")  # there is a GPU, but it is not theirs
    assert "friday" in box.waits("others", "reservation").sentence
    box.until("others", "running")  # nothing has happened but time
    assert box.states("demo") == ["running"]
    box.finish("demo", "others")
    assert box.end("others").state == "succeeded"
