"""Two tenants on one machine: what is idle is lent, and comes back to its owner."""

SITE = """\
queues:
  vision: {weight: 1}
  speech: {weight: 1}
"""


def test_two_tenants_and_reclaim(machine, dromon):
    box = machine(4, SITE)
    lent = [f"vision-{number}" for number in range(4)]
    for name in lent:
        box.submit(name, queue="vision", preemptible=name != "vision-3")
    for name in lent:
        box.until(name, "running")  # all of the machine: speech has no work

    box.submit("speech", queue="speech", gpus=1, replicas=2)
    box.until("speech", "running")
    assert sorted(box.states(*lent)) == ["queued", "queued", "running", "running"]
    went = [name for name in lent if box.states(name) == ["queued"]]
    assert "gave back what its queue had borrowed" in dromon("show", went[0])
    # Speech has all it is owed now: vision keeps its half.
    box.submit("more-speech", queue="speech")
    assert box.waits("more-speech", "resources", "order").position == 1
    assert sorted(box.states(*lent)) == ["queued", "queued", "running", "running"]
    tree = dromon("queues")
    assert "vision" in tree
    assert "speech" in tree

    box.finish("speech")
    box.end("speech")
    box.until("more-speech", "running")
    box.finish("more-speech")
    for name in went:
        box.until(name, "running")
    box.finish(*lent)
    assert {box.end(name).state for name in lent} == {"succeeded"}


def test_a_queue_that_is_drained_takes_nothing_and_keeps_what_waits(machine, dromon):
    box = machine(1, SITE)
    box.submit("first", queue="vision")
    box.until("first", "running")
    box.submit("second", queue="vision")
    assert "queue vision is drained" in dromon("queue", "drain", "vision")
    said = dromon("run", "-d", "--queue", "vision", "--", "true", code=65)
    assert "queue vision is drained: it takes nothing new" in said
    assert "speech" in said
    box.restart_daemon()
    box.finish("first")
    box.end("first")
    assert "queue vision is drained" in box.waits("second", "cap").sentence
    dromon("queue", "open", "vision")
    box.until("second", "running")
    box.finish("second")
    assert box.end("second").state == "succeeded"
