"""What containers run: the right files, no secret in what YARN writes down."""

import pytest

from dromon.engines.yarn.am import launch

FILE = {"url": "hdfs://nn/x", "size": 3, "timestamp": 7, "kind": "file", "visibility": "private"}


@pytest.fixture
def request_(make_request):
    made = make_request(acls={"view": ["bo"]}, secrets=None)
    links = ("light.pyz", "request.json", "runtime", "environment", "code.tar.gz")
    return {**made, "artifacts": {link: dict(FILE) for link in links}}


def links(context):
    return {one["key"] for one in context["local_resources"]}


def test_the_master_gets_its_interpreter_and_not_the_jobs_packages(request_):
    context = launch.master(request_, b"secret tokens", {"A": "1"})
    assert links(context) == {"light.pyz", "request.json", "runtime"}
    assert context["command"][0] == "exec runtime/bin/python -I -S -u light.pyz yarn-master"
    assert context["environment"] == [{"key": "A", "value": "1"}]


def test_a_member_gets_the_jobs_packages_and_not_the_masters_interpreter(request_):
    context = launch.member(request_, "worker-3", "tcp:h:1", 2, b"secret tokens")
    assert links(context) == {"light.pyz", "request.json", "environment", "code.tar.gz"}
    assert "environment/bin/python -I -S -u light.pyz yarn-member worker-3" in context["command"][0]
    environment = {one["key"]: one["value"] for one in context["environment"]}
    assert environment == {"DROMON_COORDINATOR": "tcp:h:1", "DROMON_EPOCH": "2"}


def test_secrets_travel_in_the_credentials_alone(request_):
    context = launch.member(request_, "worker-0", "tcp:h:1", 1, b"canary")
    assert context["tokens"] == b"canary"
    assert "canary" not in repr({k: v for k, v in context.items() if k != "tokens"})


def test_what_they_print_goes_where_yarn_collects_it(request_):
    words = launch.member(request_, "worker-0", "tcp:h:1", 1, b"")["command"]
    assert words[1:] == ["1><LOG_DIR>/agent.stdout", "2><LOG_DIR>/agent.stderr"]


def test_who_may_look_is_told_to_yarn_for_every_container(request_):
    for context in (
        launch.master(request_, b"", {}),
        launch.member(request_, "worker-0", "tcp:h:1", 1, b""),
    ):
        assert [one["acl"] for one in context["application_acls"]] == ["bo bo"]
