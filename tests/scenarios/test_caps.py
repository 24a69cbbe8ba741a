"""A cap reached: who is held is told which cap, stands in nobody's way, and is let go live."""

import time

SITE = """\
queues:
  research: {user_limit: {gpus: 2}, limit: {gpus: 3}, max_duration: 1h}
  long: {max_running: 1}
"""


def test_a_cap_reached(machine, dromon):
    box = machine(4, SITE)
    for name in ("one", "two", "three"):
        box.submit(name, queue="research")
    for name in ("one", "two"):
        box.until(name, "running")
    assert "may have 2 GPUs at once in queue research" in box.waits("three", "cap").sentence
    box.submit("other", queue="long", gpus=2)  # what is held stands in nobody's way
    box.until("other", "running")
    box.submit("another", queue="long")
    assert "may run 1 job" in box.waits("another", "cap").sentence
    box.finish("other")

    # Refused at submit: what no waiting could help.
    said = dromon("run", "-d", "--queue", "research", "--gpus", "4", "--", "true", code=65)
    assert "at most 2 GPUs at once" in said or "at most 3 GPUs at once" in said
    said = dromon("run", "-d", "--queue", "research", "max_duration=2h", "--", "true", code=65)
    assert "max_duration 2h00m is more than queue research gives, 1h00m" in said
    assert "Queue long would take it." in said

    # Changed live, at once; a restart of the daemon keeps it, and says who did it.
    dromon("queue", "set", "research", "user_limit.gpus=3")
    box.until("three", "running")
    box.restart_daemon()
    assert "queues.research.user_limit.gpus: 2 -> 3" in dromon("queue", "history")
    box.submit("four", queue="research")
    assert "may have 3 GPUs at once" in box.waits("four", "cap").sentence
    box.finish("one", "two", "three", "four", "another")
    assert {box.end(name).state for name in box.ids} == {"succeeded"}
    assert "research" in dromon("report")


def test_a_budget_that_is_used_up_lets_nothing_more_start(machine, dromon):
    box = machine(2, "queues: {research: {budget: {month: 0.00001}}}\n")  # 36 ms
    box.submit("first", queue="research", gpus=2)
    box.until("first", "running")
    box.submit("second", queue="research", gpus=2)
    time.sleep(0.1)  # it has had more than its queue may have
    box.finish("first")
    box.end("first")
    said = box.waits("second", "cap").sentence
    assert "GPU-hours of this month" in said
    box.restart_daemon()  # what was used is remembered
    assert box.waits("second", "cap").sentence == said
    dromon("queue", "set", "research", "budget=")
    box.until("second", "running")
    box.finish("second")
    assert box.end("second").state == "succeeded"
