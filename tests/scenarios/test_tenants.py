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


def test_a_job_for_the_whole_machine_is_not_begun_to_be_sent_away_again(machine):
    box = machine(4, SITE)
    box.submit("speech-1", queue="speech", gpus=2)
    box.until("speech-1", "running")
    box.submit("whole", queue="vision", gpus=4)
    box.submit("speech-2", queue="speech", gpus=2)
    assert box.waits("whole", "resources").holders == (box.ids["speech-1"],)
    box.finish("speech-1")
    box.until("speech-2", "running")  # within what speech is owed, though `whole` came before it
    assert box.states("whole") == ["queued"]
    box.finish("speech-2")
    box.until("whole", "running")
    box.finish("whole")
    assert box.end("whole").state == "succeeded"
    assert len(box.said("whole")) == 1, "begun once"


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
