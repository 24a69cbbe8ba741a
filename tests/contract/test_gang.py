"""All or nothing, and what each member is told."""

import json

ENVIRONMENT = "say(json.dumps(dict(os.environ)))"


def environments(bench, ref):
    """What each member saw, by member name."""
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    return {line.member: json.loads(line.text) for line in bench.engine.logs(ref, False)}


def test_a_gang_runs_side_by_side(bench):
    # Each waits for the others: run one after the other, they would never end.
    ref = bench.run(
        "note('here', str(rank)); wait_for(lambda: len(notes('here')) == 3); say('together')",
        replicas=3,
    )
    assert bench.ended(ref).state == "succeeded"
    assert bench.texts(ref) == ["together"] * 3


def test_a_gang_that_does_not_fit_yet_starts_no_member_at_all(bench):
    whole = int(bench.cpus)
    holder = bench.run("say('up'); time.sleep(600)", resources={"cpus": 1})
    bench.has_said(holder, "up")
    gang = bench.run("say('in')", replicas=whole, resources={"cpus": 1})
    later = bench.run("say('in')", resources={"cpus": 0.1}, priority=-1)
    assert bench.waits(gang)
    assert bench.texts(gang) == []
    bench.engine.stop(holder, 0)
    assert bench.ended(gang).state == "succeeded"
    assert bench.texts(gang) == ["in"] * whole
    assert bench.ended(later).state == "succeeded"


def test_more_than_min_is_welcome_but_not_waited_for_forever(bench):
    whole = int(bench.cpus)
    holder = bench.run("say('up'); time.sleep(600)", resources={"cpus": 1})
    bench.has_said(holder, "up")
    gang = bench.run(
        "say(os.environ['WORLD_SIZE'])",
        framework="torch",
        gang_wait="200ms",
        roles={"worker": {"replicas": whole, "min": whole - 1, "resources": {"cpus": 1}}},
    )
    assert bench.ended(gang).state == "succeeded"
    assert bench.texts(gang) == [str(whole - 1)] * (whole - 1)


def test_torch_members_get_torchs_variables(bench):
    seen = environments(bench, bench.run(ENVIRONMENT, framework="torch", replicas=3))
    assert sorted(seen) == ["worker-0", "worker-1", "worker-2"]
    assert sorted(env["RANK"] for env in seen.values()) == ["0", "1", "2"]
    assert {env["WORLD_SIZE"] for env in seen.values()} == {"3"}
    assert {env["LOCAL_RANK"] for env in seen.values()} == {"0"}
    assert len({(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in seen.values()}) == 1


def test_tensorflow_members_get_one_cluster_and_their_own_task(bench):
    chief = {"replicas": 1, "command": bench.command(ENVIRONMENT)}
    worker = {"replicas": 2, "command": bench.command(ENVIRONMENT)}
    seen = environments(
        bench, bench.run(framework="tensorflow", roles={"chief": chief, "worker": worker})
    )
    configs = {member: json.loads(env["TF_CONFIG"]) for member, env in seen.items()}
    assert configs["chief-0"]["task"] == {"type": "chief", "index": 0}
    assert configs["worker-1"]["task"] == {"type": "worker", "index": 1}
    clusters = {json.dumps(config["cluster"], sort_keys=True) for config in configs.values()}
    assert len(clusters) == 1
    addresses = [a for role in json.loads(clusters.pop()).values() for a in role]
    assert len(set(addresses)) == 3


def test_members_get_dromons_own_variables(bench):
    ref = bench.run(ENVIRONMENT, replicas=2, stop_grace="7s", env={"MINE": "yes"})
    seen = environments(bench, ref)
    assert {env["DROMON_RANK"] for env in seen.values()} == {"0", "1"}
    assert {env["DROMON_WORLD_SIZE"] for env in seen.values()} == {"2"}
    assert {env["DROMON_JOB_ID"] for env in seen.values()} == {ref}
    assert {env["DROMON_ATTEMPT"] for env in seen.values()} == {"1"}
    most = bench.engine.probe().grace  # what the engine itself leaves a member
    effective = 7.0 if most is None else min(7.0, most)
    assert {float(env["DROMON_GRACE"]) for env in seen.values()} == {effective}
    assert {env["MINE"] for env in seen.values()} == {"yes"}


def test_the_config_is_a_file_the_member_can_read(bench):
    config = {"model": {"filters": [32, 64]}, "lr": 0.001, "name": "ünet"}
    ref = bench.run("say(json.dumps(json.load(open(os.environ['DROMON_CONFIG']))))", config=config)
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert json.loads(bench.texts(ref)[0]) == config


def test_the_snapshot_is_where_the_member_starts(bench):
    ref = bench.run("say(open('lib/words.txt').read())", code={"lib/words.txt": "fixed by digest"})
    assert bench.ended(ref).state == "succeeded", bench.told(ref)
    assert bench.texts(ref) == ["fixed by digest"]


def test_ranks_in_the_status_are_those_the_members_saw(bench):
    ref = bench.run(ENVIRONMENT, replicas=3)
    seen = environments(bench, ref)
    shown = {m.member: m.rank for m in bench.engine.status(ref).members}
    assert shown == {member: int(env["DROMON_RANK"]) for member, env in seen.items()}
