"""A packed request as the message that submits it."""

from dromon.engines.yarn.application import context, id_of, tag
from dromon.hadoop.messages.client import APPLICATION_SUBMISSION_CONTEXT
from dromon.hadoop.protobuf import decode, encode

APP = "application_1700000000000_0007"
FILE = {"url": "hdfs://nn/x", "size": 3, "timestamp": 7, "kind": "file", "visibility": "private"}


def packed(make_request, **keys):
    return {**make_request(**keys), "artifacts": {"light.pyz": dict(FILE)}}


def test_it_is_what_yarn_reads(make_request):
    request = packed(make_request, queue="research", priority="high")
    made = context(APP, "train-aaaaaa", request, b"tokens")
    read = decode(APPLICATION_SUBMISSION_CONTEXT, encode(APPLICATION_SUBMISSION_CONTEXT, made))
    assert read["application_id"]["id"] == 7
    assert (read["application_name"], read["queue"]) == ("train-aaaaaa", "research")
    assert read["application_type"] == "DROMON"
    assert read["application_tags"] == ["dromon:train-aaaaaa"]
    assert read["priority"]["priority"] == 9
    assert read["keep_containers_across_application_attempts"] is True
    assert read["max_app_attempts"] == 4
    assert read["am_container_spec"]["tokens"] == b"tokens"


def test_what_a_job_says_of_its_application_goes_last(make_request):
    more = {"node_label_expression": "gpu", "resource": {"memory": 512}}
    request = packed(make_request, yarn={"application": more, "master": {"attempts": 2}})
    made = context(APP, "train-aaaaaa", request, b"")
    assert made["node_label_expression"] == "gpu"
    assert made["resource"] == {"memory": 512, "virtual_cores": 1}
    assert made["max_app_attempts"] == 2


def test_an_application_is_known_by_its_tag():
    assert id_of((tag("train-aaaaaa"), "other")) == "train-aaaaaa"
    assert id_of(("other", "dromon")) == ""
    assert id_of(()) == ""
