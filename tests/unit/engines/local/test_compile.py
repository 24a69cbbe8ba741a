"""Compiling: pure, printable, and it refuses what this machine cannot give."""

import json

import pytest

from dromon.engines.local.compile import compile_launch, lacking
from dromon.errors import Refused

RECORD = "/state/jobs/train-aaaaaa"


def request(made) -> dict:
    return dict(compile_launch(made, RECORD).request)


def test_the_same_launch_gives_the_same_request_as_json(make_launch):
    def made() -> str:
        launch = make_launch(replicas=2, config={"lr": 0.1}, env={"A": "1"}, outputs=["m"])
        return json.dumps(request(launch))

    assert made() == made()


def test_values_of_secrets_are_beside_the_request_and_only_their_names_in_it(make_launch):
    made = make_launch(secrets=["TOKEN"], launch_keys={"supplied": {"TOKEN": "canary"}})
    submission = compile_launch(made, RECORD)
    assert submission.supplied == {"TOKEN": "canary"}
    assert submission.request["supplied"] == ["TOKEN"]
    assert "canary" not in json.dumps(submission.request)
    assert "canary" not in repr(submission)


def test_what_is_asked_of_the_machine_stands_in_numbers(make_launch):
    found = request(
        make_launch(
            replicas=3,
            min=2,
            priority="high",
            stop_grace="2m",
            max_duration="1h",
            retries={"max": 4, "backoff": "5s"},
            resources={"cpus": 2, "memory": "1GiB", "gpus": {"a100": 2}},
        )
    )
    role = found["roles"]["worker"]
    assert (role["replicas"], role["min"], role["cpus"], role["memory"]) == (3, 2, 2, 1 << 30)
    assert (role["gpus"], role["gpu_kinds"]) == (2, {"a100": 2})
    gang = found["gang"]
    assert (gang["stop_grace"], gang["max_duration"]) == (120.0, 3600.0)
    assert (gang["max_retries"], gang["backoff"]) == (4, 5.0)
    assert found["priority"] == "high"


def test_a_roles_variables_beat_the_jobs_and_supplied_ones_are_left_out(make_launch):
    roles = {"worker": {"command": "true", "env": {"B": "role", "C": None}}}
    made = make_launch(command=None, roles=roles, env={"A": "job", "B": "job"})
    assert request(made)["roles"]["worker"]["env"] == {"A": "job", "B": "role"}


def test_volumes_become_paths_of_this_machine(make_launch):
    made = make_launch(
        command="train --data ${volumes.ct}/train --tmp ${volumes.scratch}",
        volumes={
            "ct": {"source": "/data/ct"},
            "scratch": {"source": "node"},
            "far": {"source": "hdfs:///x", "access": "url"},
            "file": {"source": "file:///data/f"},
        },
    )
    found = request(made)
    assert found["volumes"] == {
        "ct": "/data/ct",
        "scratch": f"{RECORD}/volumes/scratch",
        "far": "hdfs:///x",
        "file": "/data/f",
    }
    command = found["roles"]["worker"]["command"]
    assert command == f"train --data /data/ct/train --tmp {RECORD}/volumes/scratch"


def test_volumes_in_an_argv_command_are_filled_in_too(make_launch):
    made = make_launch(command=["ls", "${volumes.ct}"], volumes={"ct": {"source": "/d"}})
    assert request(made)["roles"]["worker"]["command"] == ["ls", "/d"]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"launch_keys": {"environment": {"kind": "image", "image": "x@sha256:0"}}}, "containers"),
        ({"node_label": "gpu"}, "roles.worker.node_label"),
        ({"volumes": {"ct": {"source": "hdfs:///ct"}}}, "volume ct"),
        ({"volumes": {"ct": {"source": "s3://bucket/ct"}}}, "cannot fetch s3://bucket/ct"),
        ({"total_gpus": 4}, "total_gpus"),
    ],
)
def test_what_would_change_the_jobs_meaning_is_refused_with_a_hint(make_launch, keys, words):
    with pytest.raises(Refused, match=words) as refused:
        compile_launch(make_launch(**keys), RECORD)
    assert refused.value.hint


def test_what_is_merely_not_given_is_told(make_launch):
    found = lacking(request(make_launch(tensorboard="runs", hdfs=["hdfs://nn"])))
    assert set(found) == {"tensorboard", "hdfs"}
