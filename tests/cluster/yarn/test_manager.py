"""The client's view of a real ResourceManager: applications, queues, nodes, refusals, and waits."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from testbeds.yarn.bed import Bed
from testbeds.yarn.plan import GPUS, NODE_MEMORY_MB, NODE_VCORES, QUEUES
from yarnjobs import PATIENCE

from dromon.engines.base import Waiting
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
from dromon.engines.yarn.reports import GPU
from dromon.engines.yarn.why import explain, gather
from dromon.errors import DromonError
from dromon.hadoop import ids
from dromon.hadoop.messages.client import APPLICATION_CLIENT
from dromon.hadoop.messages.master import APPLICATION_MASTER
from dromon.hadoop.sasl import Simple
from dromon.hadoop.token import Token
from dromon.hadoop.transport import RpcClient

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

PREFIX = "yarn.scheduler.capacity.root"
SHARES = {"default": 40, "research": 20, "urgent": 20, "closed": 10, "crowded": 10}


def narrow() -> dict[str, str]:
    """Queues that each run into another limit, and a cluster that looks at permissions."""
    settings = {
        f"{PREFIX}.queues": ",".join(SHARES),
        f"{PREFIX}.acl_submit_applications": " ",
        f"{PREFIX}.acl_administer_queue": " ",
        "yarn.acl.enable": "true",
        "yarn.admin.acl": "root,dr.who",  # whom the bed itself furnishes the cluster as
        "yarn.cluster.max-application-priority": "10",
    }
    for queue, share in SHARES.items():
        settings |= {
            f"{PREFIX}.{queue}.capacity": str(share),
            f"{PREFIX}.{queue}.accessible-node-labels": "*",
            f"{PREFIX}.{queue}.accessible-node-labels.gpu.capacity": str(share),
            f"{PREFIX}.{queue}.acl_submit_applications": "*",
        }
    return settings | {
        f"{PREFIX}.research.maximum-am-resource-percent": "0.02",
        f"{PREFIX}.urgent.maximum-capacity": "20",
        f"{PREFIX}.urgent.acl_submit_applications": "root,alice",
        f"{PREFIX}.default.user-limit-factor": "0.1",
        f"{PREFIX}.closed.state": "STOPPED",
        f"{PREFIX}.crowded.maximum-applications": "1",
    }


@pytest.fixture(scope="module")
def narrow_bed(new_bed: Callable[..., Bed]) -> Bed:
    return new_bed(settings=narrow())


@pytest.fixture
def acting(request: pytest.FixtureRequest) -> Iterator[Callable[..., Manager]]:
    """Managers of a bed, by user; what they leave running is killed."""
    managers: list[Manager] = []

    def make(bed: Bed, user: str = "root") -> Manager:
        managers.append(
            Manager(Cluster.from_directory(bed.plan.conf(), environ={"HADOOP_USER_NAME": user}))
        )
        return managers[-1]

    yield make
    for manager in managers:
        user = manager.cluster.user
        for report in manager.reports(users=[user], states=["ACCEPTED", "RUNNING"]):
            manager.kill(report.id)
        manager.close()


def context(app: str, queue: str = "default", memory: int = 64, **more: Any) -> dict[str, Any]:
    """An application whose ApplicationMaster sleeps and never registers."""
    return {
        "application_id": ids.parse_application(app),
        "application_name": "sleeper",
        "queue": queue,
        "resource": {"memory": memory, "virtual_cores": 1},
        "am_container_spec": {"command": ["sleep 300"]},
        "max_app_attempts": 1,
        "application_type": "DROMON",
        **more,
    }


def submit(manager: Manager, queue: str = "default", memory: int = 64, **more: Any) -> str:
    app, _ = manager.new_application()
    return manager.submit(context(app, queue, memory, **more)).id


def until(question: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What it answers as soon as that is something."""
    deadline = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)
    return answer


def started(manager: Manager, app: str) -> None:
    until(lambda: manager.report(app).containers)


class Master:
    """An ApplicationMaster of our own, outside the cluster (unmanaged), that asks for containers
    and starts nothing in them."""

    def __init__(self, manager: Manager, queue: str) -> None:
        self.app = submit(manager, queue, unmanaged_am=True)
        client = RpcClient(
            APPLICATION_CLIENT,
            manager.cluster.clients,
            Simple(manager.cluster.user),
            what="ResourceManager",
        )
        of = {"application_id": ids.parse_application(self.app)}

        def token() -> Any:
            report = client.call("getApplicationReport", of)["application_report"]
            return report.get("am_rm_token")

        places = [one.scheduler for one in manager.cluster.managers]
        token = Token.from_message(until(token))
        client.close()
        self._rpc = RpcClient(APPLICATION_MASTER, places, token, what="ResourceManager")
        self._rpc.call("registerApplicationMaster", {"host": "here", "rpc_port": 1})
        self._beat = 0
        self.containers = 0

    def ask(self, count: int, memory: int, **others: int) -> None:
        size = {
            "memory": memory,
            "virtual_cores": 1,
            "resource_value_map": [{"key": GPU, "value": n} for n in others.values()],
        }
        ask = {"priority": {"priority": 1}, "resource_name": "*", "capability": size}
        self.beat(ask=[{**ask, "num_containers": count}])

    def beat(self, **message: Any) -> int:
        answer = self._rpc.call("allocate", {"response_id": self._beat, **message})
        self._beat = answer["response_id"]
        self.containers += len(answer["allocated_containers"])
        return self.containers

    def got(self, count: int) -> None:
        until(lambda: self.beat() >= count)

    def close(self) -> None:
        self._rpc.close()


@pytest.fixture
def master() -> Iterator[Callable[..., Master]]:
    masters: list[Master] = []

    def make(manager: Manager, queue: str) -> Master:
        masters.append(Master(manager, queue))
        return masters[-1]

    yield make
    for one in masters:
        one.close()


# --- the plain bed


def test_an_application_from_its_number_to_its_end(bed: Bed, acting: Callable[..., Manager]):
    manager = acting(bed)
    app, largest = manager.new_application()
    assert largest.memory >= NODE_MEMORY_MB
    tag = f"dromon:{app}"
    taken = manager.submit(context(app, application_tags=[tag.upper()], priority={"priority": 3}))
    assert (taken.id, taken.state, taken.queue) == (app, "ACCEPTED", "root.default")
    assert manager.submit(context(app)).id == app  # the same id twice is one application
    started(manager, app)
    report = manager.report(app)
    assert (report.user, report.name, report.type) == ("root", "sleeper", "DROMON")
    assert (report.tags, report.final_status, report.attempt) == ((tag,), "UNDEFINED", 1)
    assert (report.used.memory, report.used.vcores, report.containers) == (64, 1, 1)
    assert report.tracking_url.startswith("http://")
    assert report.submitted > 1_600_000_000
    assert report.ended is None
    (attempt,) = manager.attempts(app)
    (container,) = manager.containers(app, attempt.number)
    assert container.id == attempt.container
    assert container.node in {node.id for node in manager.nodes()}
    assert container.size.memory == 64
    assert [one.id for one in manager.reports(tags=[tag])] == [app]
    assert app in {one.id for one in manager.reports(users=["root"], types=["DROMON"])}
    assert app not in {one.id for one in manager.reports(users=["nobody"])}
    assert app not in {one.id for one in manager.reports(states=["KILLED"])}
    assert len(manager.reports(limit=1)) == 1
    manager.move(app, "research")
    assert manager.report(app).queue == "root.research"
    manager.kill(app, "no more of this")
    ended = manager.report(app)
    assert (ended.state, ended.final_status) == ("KILLED", "KILLED")
    assert ended.is_terminal
    assert ended.ended is not None
    assert "no more of this" in ended.diagnostics
    manager.kill(app)  # dead already
    assert explain(gather(manager, app)).sentence == "it has ended (killed)"


def test_what_the_cluster_consists_of(bed: Bed, acting: Callable[..., Manager]):
    manager = acting(bed)
    root = manager.queues()
    assert {queue.name for queue in root.children} == set(QUEUES)
    shares = {queue.name: round(queue.capacity * 100) for queue in root.children}
    assert shares == QUEUES
    assert all(queue.state == "RUNNING" and queue.may_submit for queue in root.walk())
    nodes = manager.nodes()
    assert len(nodes) == len(bed.plan.nodes)
    assert sorted(node.gpus for node in nodes) == [0, GPUS]
    assert {(node.total.memory, node.total.vcores) for node in nodes} == {
        (NODE_MEMORY_MB, NODE_VCORES)
    }
    assert manager.nodes(states=["LOST"]) == []
    assert manager.metrics().active == len(bed.plan.nodes)
    assert manager.labels() == {"gpu": True}


def test_settings_of_the_server_that_the_client_has_not(bed: Bed):
    cluster = Cluster.from_address(bed.plan.web("resourcemanager"))
    prefix = "yarn.resourcemanager.monitor.capacity.preemption"
    assert cluster.effective(f"{prefix}.max_wait_before_kill") == "3000"
    assert cluster.effective("yarn.scheduler.minimum-allocation-mb") == "64"
    assert cluster.effective("no.such.setting", "none") == "none"


def test_an_unknown_application_is_named(bed: Bed, acting: Callable[..., Manager]):
    manager = acting(bed)
    for ask in (manager.report, manager.kill, manager.attempts):
        with pytest.raises(ApplicationUnknown, match="knows no application_1_0001"):
            ask("application_1_0001")


def test_a_queue_of_queues_takes_no_application(bed: Bed, acting: Callable[..., Manager]):
    with pytest.raises(QueueUnknown, match="no queue root to submit to") as refused:
        submit(acting(bed), "root")
    assert refused.value.hint == "Queues: default, research, urgent."


# --- refusals


@pytest.mark.parametrize(
    ("user", "more", "kind", "words", "hint"),
    [
        ("root", {"queue": "reserch"}, QueueUnknown, "no queue reserch", "mean research?"),
        ("root", {"queue": "closed"}, QueueClosed, "queue closed is stopped", "another queue"),
        ("bob", {"queue": "urgent"}, NoPermission, "bob may not do that", "Ask whoever"),
        (
            "root",
            {"memory": 99_999},
            TooLarge,
            f"99999 MB of memory are asked for; the largest container here has {NODE_MEMORY_MB}",
            "Ask for less",
        ),
        ("root", {"node_label_expression": "tpu"}, LabelUnknown, "tpu", "Labels it has: gpu."),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    narrow_bed: Bed,
    acting: Callable[..., Manager],
    user: str,
    more: dict[str, Any],
    kind: type[DromonError],
    words: str,
    hint: str,
):
    with pytest.raises(kind) as refused:
        submit(acting(narrow_bed, user), **more)
    assert words in str(refused.value)
    assert hint in refused.value.hint
    assert "\n" not in str(refused.value)


def test_a_queue_takes_so_many_applications_and_no_more(
    narrow_bed: Bed, acting: Callable[..., Manager]
):
    manager = acting(narrow_bed)
    submit(manager, "crowded")
    with pytest.raises(QueueClosed, match="queue crowded has 1 applications already"):
        submit(manager, "crowded")


def test_a_move_to_a_queue_that_is_not_there(narrow_bed: Bed, acting: Callable[..., Manager]):
    manager = acting(narrow_bed)
    app = submit(manager, "research")
    with pytest.raises(QueueUnknown, match="no queue nowhere"):
        manager.move(app, "nowhere")


def test_a_priority_is_capped_by_the_cluster(narrow_bed: Bed, acting: Callable[..., Manager]):
    manager = acting(narrow_bed)
    app = submit(manager)
    assert manager.set_priority(app, 7) == 7
    assert manager.report(app).priority == 7
    assert manager.set_priority(app, 70) == 10


def test_others_applications_are_not_ours_to_end(narrow_bed: Bed, acting: Callable[..., Manager]):
    app = submit(acting(narrow_bed, "alice"))
    with pytest.raises(NoPermission, match="bob may not do that"):
        acting(narrow_bed, "bob").kill(app)


def test_what_a_user_may_do_is_told_by_queue(narrow_bed: Bed, acting: Callable[..., Manager]):
    def may_submit(user: str) -> set[str]:
        queues = acting(narrow_bed, user).queues().children
        return {queue.name for queue in queues if queue.may_submit}

    assert may_submit("bob") == set(SHARES) - {"urgent"}
    assert may_submit("alice") == set(SHARES)
    states = {queue.name: queue.state for queue in acting(narrow_bed).queues().children}
    assert states["closed"] == "STOPPED"


# --- waits


def why(manager: Manager, app: str, word: str) -> Waiting:
    """Why it waits, as soon as the ResourceManager has come to the point."""
    return until(lambda: found if word in (found := explain(gather(manager, app)))[0] else None)


def test_the_masters_share_of_a_queue_is_used_up(narrow_bed: Bed, acting: Callable[..., Manager]):
    alice, manager = acting(narrow_bed, "alice"), acting(narrow_bed)
    first = submit(alice, "research", application_tags=["dromon:first"])
    started(alice, first)
    second = submit(manager, "research")
    third = submit(manager, "research")
    found = why(manager, third, "masters")
    assert found.sentence == (
        "waits for its ApplicationMaster: the masters of queue research may use 1 CPU and use"
        " 1 CPU (first of alice, 64 MB, 1 CPU); it starts when that one ends"
    )
    assert (found.reason, found.position, found.holders) == ("resources", 2, ("first",))
    assert why(manager, second, "masters").position == 1
    assert any("queue urgent" in way for way in found.unblock)
    alice.kill(first)
    started(manager, second)
    assert "has not reported yet" in why(manager, second, "reported").sentence


def test_the_masters_share_of_a_user_is_used_up(narrow_bed: Bed, acting: Callable[..., Manager]):
    manager = acting(narrow_bed)
    first = submit(manager, memory=512)
    started(manager, first)
    found = why(manager, submit(manager, memory=256), "masters")
    assert found.sentence == (
        "waits for its ApplicationMaster: the masters of root in queue default may use 448 MB,"
        f" 1 CPU and use 512 MB, 1 CPU ({first} of root, 512 MB, 1 CPU); it starts when that"
        " one ends"
    )
    assert found.holders == (first,)


def test_a_label_that_no_node_has(narrow_bed: Bed, acting: Callable[..., Manager]):
    manager = acting(narrow_bed)
    size = {"memory": 64, "virtual_cores": 1}
    ask = {"priority": {"priority": 0}, "resource_name": "*", "capability": size}
    asks = [{**ask, "num_containers": 1, "node_label_expression": "gpu"}]
    app = submit(manager, "urgent", am_container_resource_request=asks)
    found = why(manager, app, "label")
    assert found.sentence == "waits for its ApplicationMaster: no running node has the label gpu"
    assert found.reason == "impossible"


def test_a_queue_that_is_full(
    narrow_bed: Bed, acting: Callable[..., Manager], master: Callable[..., Master]
):
    alice, manager = acting(narrow_bed, "alice"), acting(narrow_bed)
    holder, waiter = master(alice, "urgent"), master(manager, "urgent")
    holder.ask(2, 1024)
    holder.got(2)
    waiter.ask(3, 1024)
    found = why(manager, waiter.app, "grow")
    assert found.sentence == (
        "waits for 3 containers of 1024 MB, 1 CPU: queue urgent may grow to 2457 MB and uses"
        f" 2048 MB ({holder.app} of alice, 2048 MB, 2 CPUs); it goes on when that one ends"
    )
    # All three are missed: none of a gang begins before the others.
    assert found.missing["memory"] == (2048 + 3 * 1024 - 2457) * 2**20


def test_a_user_who_has_his_share(
    narrow_bed: Bed, acting: Callable[..., Manager], master: Callable[..., Master]
):
    manager = acting(narrow_bed)
    waiter = master(manager, "default")
    waiter.ask(2, 512)
    waiter.got(1)
    found = why(manager, waiter.app, "may use")
    assert found.sentence == (
        "waits for 1 container of 512 MB, 1 CPU: root may use 491 MB, 1 CPU of queue default"
        " and uses 512 MB, 1 CPU, all of it here"
    )


def test_no_node_has_room(
    narrow_bed: Bed, acting: Callable[..., Manager], master: Callable[..., Master]
):
    alice, manager = acting(narrow_bed, "alice"), acting(narrow_bed)
    holder, waiter = master(alice, "research"), master(manager, "crowded")
    holder.ask(1, 1024, gpus=GPUS)
    holder.got(1)
    waiter.ask(1, 512, gpus=1)
    found = why(manager, waiter.app, "room")
    assert found.sentence.startswith(
        "waits for 1 container of 512 MB, 1 CPU, 1 yarn.io/gpu: no node has room for"
        " 512 MB, 1 CPU, 1 yarn.io/gpu; the most is free on "
    )
    assert f"({holder.app} of alice, 1024 MB, 1 CPU, 2 yarn.io/gpu)" in found.sentence
    assert (found.reason, found.holders, found.missing) == (
        "resources",
        (holder.app,),
        {"gpus": 1.0},
    )
