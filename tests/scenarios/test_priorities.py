"""The intern, the engineer and the paper deadline: urgent work goes first, and nothing is lost."""

SITE = """\
priorities:
  intern: 10
  engineer: {value: 50, default: true}
  deadline: 100
"""


def test_the_intern_the_engineer_and_the_paper_deadline(machine, dromon):
    box = machine(2, SITE)
    box.submit("intern", gpus=2, priority="intern")
    box.speaks("intern")

    box.submit("engineer", gpus=2)  # of the class that is the default
    box.speaks("engineer")
    assert "made room for engineer" in dromon("show", "intern")

    box.submit("paper", gpus=1, replicas=2, priority="deadline")
    box.until("paper", "running")
    assert box.states("intern", "engineer") == ["queued", "queued"]
    # Two of the same class wait for each other, whatever they want.
    box.submit("second-paper", gpus=2, priority="deadline")
    assert "held by paper" in box.waits("second-paper", "resources").sentence
    box.engine.stop(box.ids["second-paper"])

    box.finish("paper")
    assert box.end("paper").attempt == 1
    box.until("engineer", "running")
    assert box.states("intern") == ["queued"]
    box.finish("engineer")
    assert box.end("engineer").state == "succeeded"
    box.finish("intern")
    status = box.end("intern")
    # It went on from what it had saved, and no retry was used: it has none.
    assert (status.state, status.attempt) == ("succeeded", 2)
    assert box.said("intern") == ["1 from nothing", "2 from work"]


def test_a_class_the_site_does_not_know_is_refused(machine, dromon):
    machine(1, SITE)
    said = dromon("run", "-d", "priority=urgent", "--", "true", code=65)
    assert "priority 'urgent' is no class" in said
    assert "intern, engineer, deadline" in said
