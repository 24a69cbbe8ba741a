"""An ApplicationMaster played by the test itself: an unmanaged application, whose token the
ResourceManager gives to whoever submitted it. Everything else is as it is on any cluster."""

import getpass
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from testbeds.yarn.bed import Bed
from testbeds.yarn.plan import GPUS, LABEL, NODE_MEMORY_MB, NODE_VCORES
from yarnjobs import PATIENCE

from dromon.engines.yarn.am import exits
from dromon.engines.yarn.am.asks import Asks, Container, Size, Want
from dromon.engines.yarn.am.nodes import Launch, LocalResource, Nodes, launch_context
from dromon.engines.yarn.am.scheduler import (
    AskRefused,
    Completed,
    Heard,
    Scheduler,
    Superseded,
)
from dromon.hadoop import addresses, site
from dromon.hadoop.messages.client import APPLICATION_CLIENT
from dromon.hadoop.messages.enums import ApplicationState, FinalStatus
from dromon.hadoop.messages.master import APPLICATION_MASTER
from dromon.hadoop.sasl import Simple
from dromon.hadoop.token import Token
from dromon.hadoop.transport import RpcClient
from dromon.hadoop.webhdfs import WebHdfs

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SMALL = Size(64, 1)
GPU = "yarn.io/gpu"
LONG = "exec sleep 600"


class Master:
    def __init__(self, bed: Bed, asks: Asks, queue: str) -> None:
        self.bed = bed
        files = {path.name: path.read_text() for path in Path(bed.plan.conf()).glob("*.xml")}
        managers = addresses.resource_managers(site.load(files, dict(os.environ), {}))
        user = Simple(getpass.getuser())
        self.client = RpcClient(
            APPLICATION_CLIENT, [m.client for m in managers], user, what="ResourceManager"
        )
        self.application = self.client.call("getNewApplication")["application_id"]
        self.client.call(
            "submitApplication",
            {
                "application_submission_context": {
                    "application_id": self.application,
                    "application_name": "master-protocol",
                    "queue": queue,
                    "unmanaged_am": True,
                    "am_container_spec": {},
                    "resource": {"memory": 64, "virtual_cores": 1},
                    "priority": {"priority": 0},
                    "max_app_attempts": 1,
                    "keep_containers_across_application_attempts": True,
                }
            },
        )
        self.asks = asks
        self.containers: dict[str, Container] = {}
        self.roles: dict[str, str] = {}
        self.ends: dict[str, Completed] = {}
        self.refused: list[Container] = []
        self._managers = [m.scheduler for m in managers]
        self._token = self._given()
        self._line = RpcClient(
            APPLICATION_MASTER, self._managers, self._token, what="ResourceManager"
        )
        self.scheduler = Scheduler(self._line, asks)
        self.registration = self.scheduler.register("localhost", 0, "")
        self.nodes = Nodes(self.registration.tokens)

    def report(self) -> Any:
        asked = {"application_id": self.application}
        return self.client.call("getApplicationReport", asked)["application_report"]

    def _given(self) -> Token:
        deadline = time.monotonic() + PATIENCE
        while "am_rm_token" not in (report := self.report()):
            assert time.monotonic() < deadline, report
            time.sleep(0.1)
        return Token.from_message(report["am_rm_token"])

    def close(self) -> None:
        for part in (self.nodes, self._line, self.client):
            part.close()

    def use_another_connection(self) -> None:
        self._line.close()
        self._line = RpcClient(
            APPLICATION_MASTER, self._managers, self._token, what="ResourceManager"
        )
        self.scheduler = Scheduler(self._line, self.asks)

    def beat(self) -> Heard:
        heard = self.scheduler.allocate(0.5)
        self.nodes.learn(heard.tokens)
        for container in heard.allocated:
            role = self.asks.allocated(container)
            if role is None:
                self.refused.append(container)
            else:
                self.containers[container.id] = container
                self.roles[container.id] = role
        for completed in heard.completed:
            self.ends[completed.id] = completed
            self.asks.completed(completed.id)
            if completed.id in self.containers:
                self.nodes.ended(self.containers[completed.id])
        return heard

    def until(self, claim: Callable[[], bool], seconds: float = PATIENCE) -> list[Heard]:
        """Beats until it is true; what was heard meanwhile."""
        deadline = time.monotonic() + seconds
        heard = []
        while not claim():
            assert time.monotonic() < deadline, (self.containers, self.ends, self.refused)
            time.sleep(0.2)
            heard.append(self.beat())
        return heard

    def gather(self) -> list[Container]:
        """All that is asked for, in the order of their numbers."""
        self.until(lambda: self.asks.is_complete)
        return [self.containers[name] for name in sorted(self.containers)]

    def start(self, **commands: str) -> None:
        launches = [
            Launch(self.containers[name], launch_context({}, {}, [command]))
            for name, command in commands.items()
        ]
        failures = [outcome.failure for outcome in self.nodes.start(launches) if not outcome.ok]
        assert failures == []

    def of(self, role: str) -> list[Container]:
        """Those held for a role that are not over."""
        return [
            self.containers[name]
            for name, held in self.roles.items()
            if held == role and name not in self.ends
        ]

    def is_over(self) -> bool:
        """Whether all that it took have ended. Of those that it refused, ends are heard as well."""
        return self.containers.keys() <= self.ends.keys()

    def node(self, daemon: str) -> str:
        """A node's name, as YARN has it."""
        return f"localhost:{self.bed.plan.ports[daemon]['rpc']}"


@contextmanager
def master(bed: Bed, *wants: Want, queue: str = "default", **options: Any) -> Iterator[Master]:
    made = Master(bed, Asks(wants, **options), queue)
    try:
        yield made
    finally:
        state = made.report()["yarn_application_state"]
        if state < ApplicationState.FINISHED:
            made.scheduler.finish(FinalStatus.SUCCEEDED, "over")
        made.close()


def ending(end: Completed) -> exits.Ending:
    return exits.read(end.status, end.diagnostics, complete=end.complete)


def test_containers_start_end_in_every_way_and_are_heard(bed: Bed) -> None:
    with master(bed, Want("worker", 1, SMALL, 6)) as am:
        well, badly, stopped, released, greedy, hasty = am.gather()
        am.start(
            **{
                well.id: "sleep 0.1",
                badly.id: "echo no such luck 2><LOG_DIR>/stderr 1>&2; exit 3",
                stopped.id: LONG,
                released.id: LONG,
                # What has no end of line is kept in memory until it ends.
                greedy.id: "(head -c 300000000 /dev/zero; sleep 60) | tail",
                hasty.id: "kill -KILL $$",
            }
        )
        statuses = {o.container.id: o.status for o in am.nodes.statuses([stopped, released])}
        assert all(status is not None and not status.complete for status in statuses.values())
        am.asks.release(released.id)
        assert [outcome.failure for outcome in am.nodes.stop([stopped])] == [""]
        am.until(am.is_over)

        ends = {name: ending(end) for name, end in am.ends.items()}
        assert ends[well.id].kind == exits.DONE
        assert (ends[badly.id].kind, ends[badly.id].code) == (exits.FAILED, 3)
        assert ends[badly.id].last_lines == ("no such luck",)
        assert (am.ends[stopped.id].status, ends[stopped.id].kind) == (-105, exits.KILLED)
        assert (am.ends[released.id].status, ends[released.id].kind) == (-100, exits.RELEASED)
        assert (am.ends[greedy.id].status, ends[greedy.id].kind) == (-104, exits.OUT_OF_MEMORY)
        assert " of 64 MB) and was killed by YARN" in ends[greedy.id].message
        assert (ends[hasty.id].kind, ends[hasty.id].signal) == (exits.FAILED, 9)

        assert am.scheduler.finish(FinalStatus.FAILED, "as intended")
        while (report := am.report())["yarn_application_state"] < ApplicationState.FINISHED:
            time.sleep(0.1)
        assert report["final_application_status"] == FinalStatus.FAILED
        assert report["diagnostics"] == "as intended"


def test_a_file_that_changed_and_one_that_is_gone_are_told_in_words(bed: Bed) -> None:
    fs = f"hdfs://{bed.plan.address('namenode', 'rpc')}"
    with closing(WebHdfs([bed.plan.web("namenode")], getpass.getuser())) as files:
        files.write("/tmp/changed", b"anew")
    with master(bed, Want("worker", 1, SMALL, 2)) as am:
        words = {}
        for one, path in zip(am.gather(), ("/tmp/changed", "/no/such.tar.gz"), strict=True):
            code = {"code": LocalResource(fs + path, 4, 1700000000000)}
            (outcome,) = am.nodes.start([Launch(one, launch_context(code, {}, ["true"]))])
            assert outcome.ok
            words[one.id] = path
        am.until(am.is_over)
        ends = {path: ending(am.ends[name]) for name, path in words.items()}
        assert {end.kind for end in ends.values()} == {exits.ENVIRONMENT}
        assert f"{fs}/tmp/changed has changed" in ends["/tmp/changed"].message
        assert "/no/such.tar.gz is gone" in ends["/no/such.tar.gz"].message


def test_what_no_node_can_give_is_refused_and_the_rest_goes_on(bed: Bed) -> None:
    with master(bed, Want("worker", 1, Size(10 * NODE_MEMORY_MB, 1), 1)) as am:
        with pytest.raises(AskRefused) as caught:
            am.beat()
        assert "too much memory-mb" in str(caught.value)
        assert f"the most is memory:{NODE_MEMORY_MB}, vCores:{NODE_VCORES}" in str(caught.value)
        am.asks.want(Want("worker", 1, SMALL, 1))
        assert [c.size.memory for c in am.gather()] == [64]


def test_roles_never_get_each_others_containers_and_gpus_are_counted(bed: Bed) -> None:
    large = Size(256, 1, {GPU: 1})
    with master(bed, Want("ps", 1, SMALL, 3), Want("worker", 2, large, GPUS + 1)) as am:
        assert am.registration.types.count(GPU) == 1
        assert am.asks.unknown(am.registration.types) == {}
        am.until(lambda: am.asks.left("ps") == 0 and am.asks.left("worker") == 1)
        for _ in range(5):
            time.sleep(0.2)
            am.beat()
        assert am.asks.left("worker") == 1, "there are no more GPUs"
        assert {c.size.memory for c in am.of("ps")} == {64}
        assert {(c.size.memory, c.size.others[GPU]) for c in am.of("worker")} == {(256, 1)}
        assert {c.node for c in am.of("worker")} == {am.node("node2")}
        assert am.refused == []

        first = am.of("worker")[0]
        am.asks.release(first.id)
        am.gather()
        assert len(am.of("worker")) == GPUS


def test_a_resource_type_that_the_cluster_lacks_is_not_missed_in_silence(bed: Bed) -> None:
    with master(bed, Want("worker", 1, Size(64, 1, {"yarn.io/fpga": 1}), 1)) as am:
        assert am.asks.unknown(am.registration.types) == {"worker": ("yarn.io/fpga",)}
        am.until(lambda: bool(am.asks.shortages))
        assert am.asks.shortages == {"worker": "0 of 1 yarn.io/fpga"}
        (refused,) = am.refused
        am.until(lambda: refused.id in am.ends)
        assert ending(am.ends[refused.id]).kind == exits.RELEASED


def test_avoided_nodes_give_nothing_until_they_are_welcome_again(bed: Bed) -> None:
    with master(bed, Want("worker", 1, SMALL, 6)) as am:
        am.asks.avoid(am.node("node1"))
        assert {c.node for c in am.gather()} == {am.node("node2")}
        am.asks.avoid(am.node("node2"))
        am.asks.welcome(am.node("node1"))
        am.asks.expect("worker", 2)
        am.gather()
        assert [c.node for c in am.of("worker")][6:] == [am.node("node1")] * 2


def test_a_named_host_is_kept_to_where_it_is_strict(bed: Bed) -> None:
    host = f"localhost:{bed.plan.ports['node1']['rpc']}"
    want = Want("worker", 1, SMALL, 5, hosts=(host,), strict=True)
    with master(bed, want, Want("ps", 2, SMALL, 2)) as am:
        am.gather()
        assert {c.node for c in am.of("worker")} == {am.node("node1")}


def test_a_label_leads_to_the_nodes_that_have_it(bed: Bed) -> None:
    bed.label("node2", LABEL)
    try:
        with master(bed, Want("worker", 1, SMALL, 3, label=LABEL), Want("ps", 2, SMALL, 3)) as am:
            am.gather()
            assert {c.node for c in am.of("worker")} == {am.node("node2")}
            assert {c.node for c in am.of("ps")} == {am.node("node1")}
    finally:
        bed.label("node2", "")


def test_without_constraints_members_spread_over_the_nodes_all_the_same(bed: Bed) -> None:
    with master(bed, Want("chief", 1, SMALL, 3), Want("worker", 2, SMALL, 2, spread=True)) as am:
        am.gather()
        assert {c.node for c in am.of("worker")} == {am.node("node1"), am.node("node2")}
        am.asks.expect("worker", 1)  # there is no third node
        for _ in range(8):
            time.sleep(0.2)
            am.beat()
        assert len(am.of("worker")) == 2
        assert len(am.refused) <= 4
        am.asks.release(am.of("worker")[0].id)
        am.gather()
        assert {c.node for c in am.of("worker")} == {am.node("node1"), am.node("node2")}


def test_a_queue_that_is_owed_room_takes_it_and_says_so_before(bed: Bed) -> None:
    with master(bed, Want("worker", 1, Size(1024, 1), 11), queue="research") as robbed:
        robbed.start(**{one.id: LONG for one in robbed.gather()})
        with master(bed, Want("worker", 1, Size(1024, 1), 3), queue="urgent") as owed:

            def taken() -> bool:
                owed.beat()
                return owed.asks.is_complete and len(robbed.ends) >= 2

            warned = {name for heard in robbed.until(taken) for name in heard.preempted}
            assert {end.status for end in robbed.ends.values()} == {-102}
            assert {ending(end).kind for end in robbed.ends.values()} == {exits.EVICTED}
            assert set(robbed.ends) <= warned


def test_an_application_that_was_killed_supersedes_its_master(bed: Bed) -> None:
    with master(bed, Want("worker", 1, SMALL, 1)) as am:
        am.gather()
        asked = {"application_id": am.application}
        while not am.client.call("forceKillApplication", asked)["is_kill_completed"]:
            time.sleep(0.1)
        with pytest.raises(Superseded):
            am.until(lambda: False)
        am.use_another_connection()
        with pytest.raises(Superseded):
            am.beat()


def test_another_master_takes_over_what_runs(bed: Bed) -> None:
    want = Want("worker", 1, SMALL, 2, spread=True)
    with master(bed, want) as am:
        am.start(**{one.id: LONG for one in am.gather()})
        am.nodes.close()
        am.use_another_connection()
        found = am.scheduler.register("localhost", 0, "")
        assert {c.id: c.node for c in found.containers} == {
            c.id: c.node for c in am.containers.values()
        }
        assert found.tokens.keys() == {am.node("node1"), am.node("node2")}

        asks = Asks([want])
        assert [asks.adopt(one) for one in found.containers] == ["worker", "worker"]
        assert asks.is_complete
        am.nodes = Nodes(found.tokens)
        am.nodes.adopt(found.containers)
        assert [outcome.failure for outcome in am.nodes.stop(found.containers)] == ["", ""]
        am.until(am.is_over)
        assert {am.ends[name].status for name in am.containers} == {-105}


def test_constraints_spread_and_a_restarted_resource_manager_hears_everything_again(
    second: Bed,
) -> None:
    wants = (Want("chief", 1, SMALL, 1), Want("worker", 2, SMALL, 3, spread=True))
    with master(second, *wants, constraints=True) as am:
        am.until(lambda: am.asks.left("chief") == 0 and am.asks.left("worker") == 1)
        for _ in range(5):
            time.sleep(0.2)
            am.beat()
        assert {c.node for c in am.of("worker")} == {am.node("node1"), am.node("node2")}
        assert am.refused == []
        (chief,) = am.of("chief")
        first, other = am.of("worker")
        am.start(**{chief.id: LONG, first.id: LONG, other.id: LONG})

        second.kill("resourcemanager")
        restart = threading.Thread(target=second.start, args=("resourcemanager",))
        restart.start()
        assert am.beat().registration is not None, "one beat outlasts the restart"
        restart.join()

        # Nothing was lost, what is still to come is known again, and so is what goes back.
        am.asks.release(first.id)
        am.gather()
        assert am.ends.keys() == {first.id}
        third = next(c for c in am.of("worker") if c.id != other.id)
        assert third.node == first.node
        assert third.id.startswith("container_e01_"), "its number tells of the restart"
        am.start(**{third.id: "exit 5"})
        list(am.nodes.stop([chief]))
        am.until(lambda: {chief.id, third.id} <= am.ends.keys())
        assert am.ends[third.id].status == 5
        assert am.ends[chief.id].status == -105
        assert am.scheduler.finish(FinalStatus.SUCCEEDED)
