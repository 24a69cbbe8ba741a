"""A wrong address, or a cluster that is down, or half of it: one clear message, or success."""

import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from testbeds.yarn.bed import Bed

from dromon.engines.yarn.cluster import Cluster, find
from dromon.engines.yarn.manager import Manager
from dromon.errors import EngineError
from dromon.hadoop.failover import Policy
from dromon.hadoop.faults import RemoteProtocolError
from dromon.hadoop.transport import RpcFailed, Unreachable

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SHORT = Policy(base=0.1, cap=0.1, patience=0.5)
PREFIX = "yarn.resourcemanager"


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that refuses connections for as long as the test takes."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # bound, not listening
        yield f"127.0.0.1:{sock.getsockname()[1]}"


@pytest.fixture
def conf(bed: Bed, tmp_path: Path) -> Callable[..., str]:
    """The bed's configuration directory with some settings changed."""

    def write(changes: Mapping[str, str]) -> str:
        for file in Path(bed.plan.conf()).glob("*.xml"):
            (tmp_path / file.name).write_text(file.read_text())
        properties = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>"
            for name, value in changes.items()
        )
        site = tmp_path / "yarn-site.xml"
        site.write_text(
            site.read_text().replace("</configuration>", f"{properties}</configuration>")
        )
        return str(tmp_path)

    return write


def active(cluster: Cluster) -> int:
    with Manager(cluster, SHORT) as manager:
        return manager.metrics().active


def test_a_directory_is_enough(bed: Bed):
    cluster = find(bed.plan.conf())
    assert active(cluster) == len(bed.plan.nodes)
    assert str(cluster.name_service.nodes[0].rpc) == bed.plan.address("namenode", "rpc")


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_the_web_address_is_enough_with_or_without_its_scheme(bed: Bed, scheme: str):
    """Also where the web port was meant to be the RPC port: the page tells which that is."""
    web = bed.plan.address("resourcemanager", "web")
    cluster = find(scheme + web, {"HADOOP_USER_NAME": "alice"})
    assert cluster.user == "alice"
    (manager,) = cluster.managers
    assert str(manager.client) == bed.plan.address("resourcemanager", "client")
    assert str(manager.scheduler) == bed.plan.address("resourcemanager", "scheduler")
    assert cluster.name_service.nodes[0].web == bed.plan.web("namenode")
    assert active(cluster) == len(bed.plan.nodes)


def test_an_rpc_address_whose_pages_are_elsewhere_asks_for_them(bed: Bed):
    where = bed.plan.address("resourcemanager", "client")
    with pytest.raises(EngineError) as failed:
        find(where)
    assert f"http://{where}/conf is an RPC port, not a web page" in str(failed.value)
    assert "http://HOST:PORT" in failed.value.hint
    assert "HADOOP_CONF_DIR" in failed.value.hint


def test_an_address_where_nothing_listens(nobody: str):
    with pytest.raises(EngineError) as failed:
        find(f"http://{nobody}")
    assert str(failed.value) == (
        "the ResourceManager's settings cannot be read:"
        f" http://{nobody}/conf does not answer: connection refused"
    )


def test_a_name_that_does_not_resolve():
    with pytest.raises(EngineError, match=r"no-such-host\.invalid:8088/conf does not answer"):
        find("no-such-host.invalid")


def test_a_directory_that_names_a_dead_address(conf: Callable[..., str], nobody: str):
    where = conf({f"{PREFIX}.address": nobody})
    with pytest.raises(Unreachable) as failed:
        active(find(where))
    assert str(failed.value) == (
        f"the ResourceManager at {nobody} refused the connection: is it running?"
    )
    assert where in failed.value.hint


def test_a_directory_that_names_an_unknown_host(conf: Callable[..., str]):
    where = conf({f"{PREFIX}.address": "no-such-host.invalid:8032"})
    with pytest.raises(Unreachable, match=r"the name no-such-host\.invalid is not known"):
        active(find(where))


def test_a_web_port_where_the_rpc_port_belongs(bed: Bed, conf: Callable[..., str]):
    web = bed.plan.address("resourcemanager", "web")
    with pytest.raises(RemoteProtocolError) as failed:
        active(find(conf({f"{PREFIX}.address": web})))
    assert str(failed.value) == (
        f"the ResourceManager at {web}: this is a web server, not Hadoop RPC"
    )
    assert "RPC port" in failed.value.hint


def test_the_port_for_masters_where_that_for_clients_belongs(bed: Bed, conf: Callable[..., str]):
    scheduler = bed.plan.address("resourcemanager", "scheduler")
    with pytest.raises(RpcFailed, match="SIMPLE authentication is not enabled") as failed:
        active(find(conf({f"{PREFIX}.address": scheduler})))
    assert "not the one for clients" in failed.value.hint


def pair(first: str, second: str) -> dict[str, str]:
    return {
        f"{PREFIX}.ha.enabled": "true",
        f"{PREFIX}.ha.rm-ids": "rm1,rm2",
        f"{PREFIX}.address.rm1": first,
        f"{PREFIX}.address.rm2": second,
    }


def test_half_a_pair_is_enough(bed: Bed, conf: Callable[..., str], nobody: str):
    alive = bed.plan.address("resourcemanager", "client")
    for servers in ((nobody, alive), (alive, nobody)):
        assert active(find(conf(pair(*servers)))) == len(bed.plan.nodes)


def test_a_pair_of_addresses_of_which_one_lives(bed: Bed, nobody: str):
    web = bed.plan.address("resourcemanager", "web")
    assert active(find(f"{nobody},{web}")) == len(bed.plan.nodes)


def test_no_half_of_a_pair_answers(conf: Callable[..., str], nobody: str):
    with pytest.raises(Unreachable) as failed:
        active(find(conf(pair(nobody, "no-such-host.invalid:8032"))))
    assert str(failed.value) == (
        f"none of the 2 ResourceManagers answers: {nobody} refused the connection;"
        " no-such-host.invalid:8032 cannot be found: the name no-such-host.invalid is not known"
    )


def test_a_resource_manager_that_is_down_and_one_that_comes_back(bed: Bed):
    cluster = find(bed.plan.conf())
    with Manager(cluster, SHORT) as manager:
        assert manager.metrics().active == len(bed.plan.nodes)
        bed.kill("resourcemanager")
        try:
            with pytest.raises(Unreachable, match="refused the connection: is it running"):
                manager.metrics()
        finally:
            bed.start("resourcemanager")
        assert manager.metrics().active == len(bed.plan.nodes)  # the same client, reconnected
