"""A gang behind small jobs: it gets its turn, and who does not delay it may pass."""


def test_a_gang_behind_small_jobs(machine):
    box = machine(4, "queues: {default: {}}\n")
    box.submit("small-0", gpus=2, max_duration="10m")
    box.until("small-0", "running")
    box.submit("gang", gpus=1, replicas=4, max_duration="10m")
    waiting = box.waits("gang", "resources")
    assert waiting.missing == {"gpus": 2.0}
    # It starts at the latest when what runs must have ended.
    assert waiting.sure == "planned"

    box.submit("endless", gpus=1)
    assert box.ids["gang"] in box.waits("endless", "order").sentence
    box.submit("too-long", gpus=1, max_duration="1h")
    box.submit("short", gpus=1, max_duration="1m")
    box.until("short", "running")  # it will be gone by then
    assert box.states("gang", "endless", "too-long") == ["queued"] * 3

    box.finish("small-0", "short")
    box.until("gang", "running")
    assert box.states("endless", "too-long") == ["queued"] * 2
    box.finish("gang", "endless", "too-long")
    assert {box.end(name).state for name in box.ids} == {"succeeded"}
