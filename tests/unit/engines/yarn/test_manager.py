"""The ResourceManager's answers as values, and its refusals as our errors."""

import pytest

from dromon.engines.yarn import manager as managers
from dromon.engines.yarn.am.asks import Size
from dromon.engines.yarn.cluster import Cluster
from dromon.engines.yarn.manager import (
    ApplicationUnknown,
    LabelUnknown,
    Manager,
    NoPermission,
    QueueClosed,
    QueueUnknown,
    TooLarge,
)
from dromon.errors import Refused
from dromon.hadoop.addresses import Address, ResourceManager
from dromon.hadoop.failover import Policy
from dromon.hadoop.messages.client import APPLICATION_CLIENT
from dromon.hadoop.messages.enums import ApplicationState, NodeState, QueueAcl, QueueState
from dromon.hadoop.site import Site
from dromon.hadoop.transport import RpcFailed, Unreachable

APP = "application_1700000000000_0007"
ID = {"cluster_timestamp": 1700000000000, "id": 7}
YARN = "org.apache.hadoop.yarn.exceptions."
ONCE = Policy(patience=-1)


def cluster(*places: Address) -> Cluster:
    found = tuple(ResourceManager("", place, place, "http://127.0.0.1:1") for place in places)
    return Cluster(Site({}), "alice", found, "/etc/hadoop")


@pytest.fixture
def manager(rpc_server):
    """A manager whose server gives `answers`: method -> an answer, or a list of them."""
    made = []

    def make(answers):
        def answer(call):
            said = answers[call.method]
            return said.pop(0) if isinstance(said, list) else said

        server = rpc_server(APPLICATION_CLIENT, answer)
        made.append(Manager(cluster(server.address), ONCE))
        made[-1].server = server
        return made[-1]

    yield make
    for one in made:
        one.close()


def report(state=ApplicationState.ACCEPTED, attempt=1, diagnostics="", **more):
    found = {
        "application_id": ID,
        "user": "alice",
        "queue": "root.default",
        "yarn_application_state": state,
        "current_application_attempt_id": {"application_id": ID, "attempt_id": attempt},
        "diagnostics": diagnostics,
        **more,
    }
    return {"application_report": found}


ROOT = {
    "queue_name": "root",
    "queue_path": "root",
    "state": QueueState.RUNNING,
    "child_queues": [
        {
            "queue_name": "research",
            "queue_path": "root.research",
            "capacity": 0.25,
            "maximum_capacity": 1.0,
            "current_capacity": 1.5,
            "state": QueueState.STOPPED,
            "accessible_node_labels": ["gpu"],
            "queue_statistics": {"num_apps_running": 2, "num_apps_pending": 3},
        },
        {"queue_name": "default", "queue_path": "root.default", "state": QueueState.RUNNING},
    ],
}
QUEUES = {
    "getQueueInfo": {"queue_info": ROOT},
    "getQueueUserAcls": {
        "queue_user_acls": [
            {"queue_name": "root.research", "user_acls": [QueueAcl.SUBMIT_APPLICATIONS]},
            {"queue_name": "default", "user_acls": [QueueAcl.ADMINISTER_QUEUE]},
        ]
    },
}


def test_a_report_is_told_in_words_and_seconds(manager):
    size = {"memory": 512, "virtual_cores": 2}
    gpus = [{"key": "memory-mb", "value": 512}, {"key": "yarn.io/gpu", "value": 1}]
    timeout = {"application_timeout_type": 1, "expire_time": "2026-01-01T00:00:00.000+0000"}
    found = manager(
        {
            "getApplicationReport": report(
                ApplicationState.RUNNING,
                name="train",
                host="node7",
                rpc_port=0,
                tracking_url="http://rm:8088/proxy/x/",
                submit_time=1_700_000_001_500,
                finish_time=0,
                application_tags=["b", "a"],
                priority={"priority": 4},
                log_aggregation_status=2,
                app_resource_usage={
                    "used_resources": {**size, "resource_value_map": gpus},
                    "num_used_containers": 3,
                },
                app_timeouts=[{"application_timeout_type": 1, "application_timeout": timeout}],
            )
        }
    ).report(APP)
    assert (found.id, found.state, found.final_status) == (APP, "RUNNING", "UNDEFINED")
    assert (found.submitted, found.ended, found.host) == (1_700_000_001.5, None, "node7")
    assert (found.used, found.containers) == (Size(512, 2, {"yarn.io/gpu": 1}), 3)
    assert (found.tags, found.priority, found.log_aggregation) == (("a", "b"), 4, "NOT_START")
    assert found.expires == "2026-01-01T00:00:00.000+0000"
    assert not found.is_terminal


def test_what_a_stranger_may_not_know_is_nothing_rather_than_minus_one(manager):
    hidden = {"memory": -1, "virtual_cores": -1}
    usage = {"used_resources": hidden, "num_used_containers": -1, "num_reserved_containers": -1}
    found = manager(
        {
            "getApplicationReport": report(
                host="N/A", rpc_port=-1, diagnostics="N/A", app_resource_usage=usage, attempt=-1
            )
        }
    ).report(APP)
    assert (found.host, found.port, found.diagnostics) == ("", 0, "")
    assert (found.used, found.containers, found.attempt) == (Size(0, 0), 0, 0)


def test_a_state_of_a_newer_hadoop_is_told_by_its_number(manager):
    assert manager({"getApplicationReport": report(99)}).report(APP).state == "ApplicationState-99"


def test_queues_are_a_tree_with_what_the_user_may_do(manager):
    root = manager(QUEUES).queues()
    assert [queue.path for queue in root.walk()] == ["root", "root.research", "root.default"]
    research, default = root.children
    assert (research.capacity, research.maximum, research.used) == (0.25, 1.0, 1.5)
    assert (research.state, research.running, research.pending) == ("STOPPED", 2, 3)
    assert (research.may_submit, research.may_administer) == (True, False)
    assert (default.may_submit, default.may_administer) == (False, True)


def test_nodes_have_their_gpus_and_their_state(manager):
    gpus = [{"key": "yarn.io/gpu", "value": 4}]
    found = manager(
        {
            "getClusterNodes": {
                "node_reports": [
                    {
                        "node_id": {"host": "b", "port": 1},
                        "node_state": NodeState.LOST,
                        "capability": {"memory": 1},
                    },
                    {
                        "node_id": {"host": "a", "port": 1},
                        "node_state": NodeState.RUNNING,
                        "node_labels": ["gpu"],
                        "capability": {"memory": 8, "resource_value_map": gpus},
                    },
                ]
            }
        }
    ).nodes(states=["RUNNING", "LOST"])
    assert [(one.id, one.gpus, one.is_usable) for one in found] == [
        ("a:1", 4, True),
        ("b:1", 0, False),
    ]
    assert found[0].labels == ("gpu",)


def test_applications_come_newest_first_and_tags_are_looked_for_in_lower_case(manager):
    old, new = ({**ID, "id": n} for n in (1, 2))
    asked = manager(
        {
            "getApplications": {
                "applications": [
                    {"application_id": old, "submit_time": 1000},
                    {"application_id": new, "submit_time": 2000},
                ]
            }
        }
    )
    found = asked.reports(tags=["dromon:ABC"], states=["RUNNING"], limit=5)
    assert [one.id[-4:] for one in found] == ["0002", "0001"]
    message = asked.server.calls[0].message
    assert message["application_tags"] == ["dromon:abc"]
    assert (message["application_states"], message["limit"]) == ([5], 5)


def test_submitting_waits_until_the_scheduler_took_it(manager):
    states = (ApplicationState.NEW_SAVING, ApplicationState.SUBMITTED, ApplicationState.ACCEPTED)
    asked = manager(
        {"submitApplication": {}, "getApplicationReport": [report(state) for state in states]}
    )
    found = asked.submit({"application_id": ID, "application_tags": ["Dromon:X"]})
    assert found.state == "ACCEPTED"
    context = asked.server.calls[0].message["application_submission_context"]
    assert context["application_tags"] == ["dromon:x"]


def test_an_application_that_failed_after_it_had_a_master_is_no_refusal(manager):
    failed = report(ApplicationState.FAILED, attempt=1, diagnostics="AM exited with 1")
    asked = manager({"submitApplication": {}, "getApplicationReport": failed})
    assert asked.submit({"application_id": ID}).state == "FAILED"


def test_a_kill_is_repeated_until_it_is_done(manager):
    asked = manager(
        {
            "forceKillApplication": [
                {"is_kill_completed": False},
                {"is_kill_completed": False},
                {"is_kill_completed": True},
            ]
        }
    )
    asked.kill(APP, "enough")
    assert [call.message["diagnostics"] for call in asked.server.calls] == ["enough"] * 3


# --- refusals, in the words of Hadoop 3.4


TOO_LARGE = (
    "Invalid resource request! Cannot allocate containers as requested resource is greater than"
    " maximum allowed allocation. Requested resource type=[yarn.io/gpu], Requested resource="
    "<memory:64, vCores:1, yarn.io/gpu: 99>, maximum allowed allocation=<memory:6144, vCores:8,"
    " yarn.io/gpu: 2>, please note that maximum allowed allocation is calculated by scheduler"
)


@pytest.mark.parametrize(
    ("said", "kind", "words", "hint"),
    [
        (
            f"Application {APP} submitted by user alice to unknown queue: reserch",
            QueueUnknown,
            "there is no queue reserch to submit to",
            "Did you mean research? Queues: research, default.",
        ),
        (
            f"org.apache.hadoop.security.AccessControlException: Queue root.x is STOPPED. Cannot"
            f" accept submission of application: {APP}",
            QueueClosed,
            "queue reserch is stopped and takes no new job",
            QueueClosed.hint,
        ),
        (
            f"org.apache.hadoop.security.AccessControlException: Queue root.x already has 5"
            f" applications from user alice cannot accept submission of application: {APP}",
            QueueClosed,
            "queue reserch has 5 applications of alice already, as many as it takes",
            QueueClosed.hint,
        ),
        (
            f"User alice does not have permission to submit {APP} to queue x",
            NoPermission,
            "alice may not do that: User alice does not have permission to submit"
            f" {APP} to queue x",
            "Ask whoever runs the cluster, or use a queue that `dromon queues` shows as open to"
            " you.",
        ),
        ("something else\nin two lines", Refused, "the cluster refused it: something else", ""),
    ],
)
def test_a_refusal_that_comes_as_a_failed_application(manager, said, kind, words, hint):
    failed = report(ApplicationState.FAILED, attempt=0, diagnostics=said)
    asked = manager({"submitApplication": {}, "getApplicationReport": failed, **QUEUES})
    with pytest.raises(kind) as refused:
        asked.submit({"application_id": ID, "queue": "reserch"})
    assert type(refused.value) is kind
    assert (str(refused.value), refused.value.hint) == (words, hint)


@pytest.mark.parametrize(
    ("exception", "text", "kind", "words"),
    [
        (
            "InvalidResourceRequestException",
            TOO_LARGE,
            TooLarge,
            "99 yarn.io/gpu are asked for; the largest container here has 2",
        ),
        (
            "InvalidResourceRequestException",
            "Invalid resource request, requested memory < 0",
            TooLarge,
            "the cluster cannot give that: Invalid resource request, requested memory < 0",
        ),
        (
            "InvalidLabelResourceRequestException",
            "Invalid label resource request, cluster do not contain , label= tpu",
            LabelUnknown,
            "the cluster refused the node label: Invalid label resource request, cluster do not"
            " contain , label= tpu",
        ),
        (
            "YarnException",
            "org.apache.hadoop.security.AccessControlException: User alice cannot perform"
            " operation MODIFY_APP",
            NoPermission,
            "alice may not do that: User alice cannot perform operation MODIFY_APP",
        ),
        ("YarnException", "App in KILLED state cannot be moved.", Refused,
         "the cluster refused it: App in KILLED state cannot be moved."),
    ],
)  # fmt: skip
def test_a_refusal_that_comes_at_once(rpc_server, manager, exception, text, kind, words):
    labels = {"node_labels": [{"name": "gpu"}]}
    said = rpc_server.Fail(YARN + exception, text)
    asked = manager({"submitApplication": said, "getClusterNodeLabels": labels})
    with pytest.raises(kind) as refused:
        asked.submit({"application_id": ID})
    assert (type(refused.value), str(refused.value)) == (kind, words)


def test_an_application_it_does_not_know(rpc_server, manager):
    said = rpc_server.Fail(f"{YARN}ApplicationNotFoundException", f"'{APP}' doesn't exist in RM")
    with pytest.raises(ApplicationUnknown, match=f"the cluster knows no {APP}"):
        manager({"getApplicationReport": said}).report(APP)


def test_an_error_of_the_servers_own_is_quoted(rpc_server, manager):
    said = rpc_server.Fail("java.lang.NullPointerException", "oops")
    with pytest.raises(RpcFailed, match=r"refused getClusterMetrics: oops \(NullPointerException"):
        manager({"getClusterMetrics": said}).metrics()


def test_where_the_address_came_from_is_said_when_nobody_answers():
    asked = Manager(cluster(Address("no-such-host.invalid", 8032)), ONCE)
    with pytest.raises(Unreachable) as failed:
        asked.metrics()
    assert "/etc/hadoop" in failed.value.hint


def test_a_person_does_not_wait_minutes_for_a_dead_cluster():
    assert managers.POLICY.patience <= 10
