"""A gang behind small jobs: it gets its turn, and who does not delay it may pass. An elastic gang:
it takes what nobody wants, and gives it back first."""


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


# Saves its work now and then, as a trainer does, says so, and goes on from there.
TRAINER = """
trap 'exit 143' TERM
echo "$DROMON_ATTEMPT: $DROMON_RANK of $DROMON_WORLD_SIZE from $(cat $DROMON_CHECKPOINT_DIR/state)"
cd $DROMON_CHECKPOINT_DIR
while [ ! -e {flag} ]; do
  echo work > $DROMON_RANK; mv $DROMON_RANK state; touch $DROMON_MEMBER_DIR/saved; sleep 0.2
done
"""


def test_an_elastic_gang_takes_what_nobody_wants_and_gives_it_back_first(machine, dromon):
    box = machine(4, "min_run_time: 1s\n")
    box.submit("other", gpus=2)
    box.until("other", "running")
    command = TRAINER.format(flag=box.root / "gang")
    box.submit("gang", command=command, gpus=1, replicas=4, min=1, gang_wait=0)
    box.until("gang", "running")
    assert len(box.engine.status(box.ids["gang"]).members) == 2  # what was left
    assert "it runs with 2 of 4 members" in dromon("why", "gang")
    assert "2 of 4 members" in dromon("ps")

    box.finish("other")  # there is room: it begins anew from its checkpoint, with all of them
    box.has_members("gang", 4)
    # Killed in between, the daemon goes on where it was.
    box.kill_daemon()
    assert box.has_members("gang", 4).attempt == 2

    box.submit("second", gpus=3)  # of the same class: it waits for nobody but those above `min`
    box.until("second", "running")
    status = box.has_members("gang", 1)
    assert status.attempt == 3
    shown = dromon("show", "gang")
    assert "grows from 2 to 4 members: there is room" in shown
    assert f"goes from 4 to 1 member, to make room for {box.ids['second']}" in shown

    box.finish("gang", "second")
    assert box.end("gang").state == "succeeded"  # and no retry was used: it has none
    said = sorted(box.said("gang"))
    assert "2: 3 of 4 from work" in said
    assert "3: 0 of 1 from work" in said


def test_an_elastic_gang_that_never_saves_its_work_is_not_restarted_to_grow(machine, dromon):
    box = machine(2, "min_run_time: 1s\n")
    box.submit("other", gpus=1)
    box.until("other", "running")
    box.submit("gang", gpus=1, replicas=2, min=1, gang_wait=0)
    box.speaks("gang")
    box.finish("other")
    box.end("other")
    box.submit("third", gpus=1)  # the room is there, and is used by whoever comes
    box.until("third", "running")
    assert len(box.engine.status(box.ids["gang"]).members) == 1
    box.finish("gang", "third")
    assert box.end("gang").attempt == 1
