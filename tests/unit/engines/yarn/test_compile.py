"""A launch as a request of YARN: pure, printable, and it refuses what YARN cannot give."""

import json

import pytest

from dromon.engines.yarn.compile import GPU, compile_launch, lacking
from dromon.errors import Refused


def test_the_same_launch_gives_the_same_bytes(make_launch, target):
    def made():
        launch = make_launch(
            replicas=2, config={"lr": 0.1}, env={"B": "2", "A": "1"}, outputs=["m"]
        )
        return json.dumps(compile_launch(launch, target).request)

    assert made() == made()


def test_values_of_secrets_are_beside_the_request(make_launch, target):
    launch = make_launch(secrets=["TOKEN"], launch_keys={"supplied": {"TOKEN": "canary"}})
    made = compile_launch(launch, target)
    assert made.supplied == {"TOKEN": "canary"}
    assert made.request["supplied"] == ["TOKEN"]
    assert "canary" not in json.dumps(made.request)


def test_a_container_is_as_large_as_its_member_and_its_agent(make_request):
    asked = {"cpus": 1.5, "memory": "1000MB", "gpus": 2}
    role = make_request(resources=asked, yarn={"resources": {"fpga": 1}})["roles"]["worker"]
    assert role["memory"] == 1000 * 10**6
    assert role["container"] == {
        "memory": 954 + 64, "vcores": 2, "others": {GPU: 2, "fpga": 1}
    }  # fmt: skip


def test_a_member_that_does_not_say_gets_a_usual_container(make_request):
    role = make_request()["roles"]["worker"]
    assert role["memory"] is None
    assert role["container"]["memory"] == 2048 + 64
    assert role["container"]["others"] == {}


def test_priorities_keep_their_order_below_what_the_cluster_allows(make_request):
    numbers = [
        make_request(priority=name)["priority"] for name in ("low", "normal", "high", "urgent")
    ]
    assert numbers == [1, 5, 9, 10]
    assert make_request(priority=7)["priority"] == 7
    assert make_request(priority=700)["priority"] == 10


def test_the_grace_is_what_yarn_leaves_of_it(make_launch, target):
    from dataclasses import replace

    quick = replace(target, preemption_wait=15.0)
    launch = make_launch(stop_grace="60s")
    assert compile_launch(launch, quick).request["grace"] == 15.0
    assert compile_launch(launch, target).request["grace"] == 60.0
    assert compile_launch(make_launch(stop_grace="5s"), quick).request["grace"] == 5.0


def test_volumes_become_copies_scratch_and_addresses(make_request):
    found = make_request(
        command="train ${volumes.ct}/a ${volumes.tmp}",
        volumes={
            "ct": {"source": "hdfs:///data/ct"},
            "tmp": {"source": "node"},
            "far": {"source": "s3://bucket/x", "access": "url"},
            "shared": {"source": "/mnt/data", "access": "mount"},
        },
    )
    kinds = {name: volume["kind"] for name, volume in found["volumes"].items()}
    assert kinds == {"ct": "copy", "tmp": "scratch", "far": "as it is", "shared": "as it is"}
    marks = {name: volume["mark"] for name, volume in found["volumes"].items()}
    assert found["roles"]["worker"]["command"] == f"train {marks['ct']}/a {marks['tmp']}"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"resources": {"gpus": {"a100": 1}}}, "does not know their models"),
        ({"resources": {"gpus": 0.5}}, "whole GPUs only"),
        ({"yarn": {"labels": "x"}}, "yarn.labels: there is no such setting"),
        ({"volumes": {"x": {"source": "s3://b/x"}}}, "cannot fetch s3://b/x"),
        ({"volumes": {"x": {"source": "hdfs:///x", "access": "mount"}}}, "cannot be mounted"),
        ({"launch_keys": {"environment": {"kind": "image"}}}, "environment.image"),
    ],
)
def test_what_would_change_the_meaning_of_the_job_is_refused(make_request, keys, words):
    with pytest.raises(Refused, match=words) as refused:
        make_request(**keys)
    assert refused.value.hint


def test_what_is_left_out_without_harm_is_told(make_request):
    assert lacking(make_request()) == {}
    assert "resources.shm" in lacking(make_request(resources={"shm": "1GB"}))


def test_people_are_named_to_yarn_as_users_and_groups(make_request):
    found = make_request(acls={"view": ["bo", "ci"], "modify": ["di"]})["acls"]
    assert found == {"VIEW_APP": "bo,ci bo,ci", "MODIFY_APP": "di di"}
    assert make_request()["acls"] == {}


def test_of_the_callers_variables_only_its_language_goes_along(make_request):
    facts = {"inherited": {"LANG": "de", "LC_ALL": "C", "PATH": "/x", "LD_LIBRARY_PATH": "/y"}}
    found = make_request(launch_keys={"facts": facts})["inherited"]
    assert found == {"LANG": "de", "LC_ALL": "C"}


def test_a_nodes_own_python_needs_no_environment(make_request):
    found = make_request(yarn={"python": "/usr/bin/python3"})
    assert found["python"] == found["master"]["python"] == "/usr/bin/python3"
    assert found["environment"] == {"kind": "node"}


def test_a_shared_directory_has_a_place_for_each_job(make_launch, target):
    from dataclasses import replace

    found = compile_launch(make_launch(), replace(target, shared="/mnt/share/"))
    assert found.request["checkpoints"] == "/mnt/share/train-aaaaaa/checkpoints"
