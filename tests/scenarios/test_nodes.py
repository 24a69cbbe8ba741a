"""A drained node: what runs goes on, nothing new starts, until it is opened."""


def test_a_drained_node(machine, dromon):
    box = machine(2, "{}\n")
    box.submit("before")
    box.until("before", "running")
    assert "1 job still running" in dromon("node", "drain")
    box.submit("after")  # accepted, all the same
    waiting = box.waits("after", "resources")
    assert "is drained, and nothing starts" in waiting.sentence
    assert waiting.unblock == ("dromon node open",)
    assert "it is drained" in dromon("nodes")
    box.restart_daemon()
    box.finish("before")
    assert box.end("before").state == "succeeded"
    assert box.states("after") == ["queued"]

    dromon("node", "open")
    box.until("after", "running")
    box.finish("after")
    assert box.end("after").state == "succeeded"
    assert "drained" in dromon("queue", "history")
