"""Which cluster is meant. The ResourceManager's pages are served by a real web server here."""

import http.server
import threading
from pathlib import Path

import pytest

from dromon.engines.yarn.cluster import Cluster, NoCluster, find
from dromon.engines.yarn.pages import PageFailed, Pages, each, parse_conf
from dromon.errors import EngineError, Refused
from dromon.hadoop.addresses import Address
from dromon.hadoop.site import SiteFileError


def conf_page(**more: str) -> str:
    settings = {
        "fs.defaultFS": "hdfs://nn:9000",
        "yarn.resourcemanager.hostname": "0.0.0.0",
        "yarn.resourcemanager.address": "${yarn.resourcemanager.hostname}:8032",
        "yarn.resourcemanager.scheduler.address": "localhost:8030",
        "yarn.resourcemanager.webapp.address": "${yarn.resourcemanager.hostname}:8088",
        "yarn.scheduler.minimum-allocation-mb": "128",
        **more,
    }
    return render(settings)


def render(settings: dict[str, str]) -> str:
    return "<configuration>{}</configuration>".format(
        "".join(
            f"<property><name>{name}</name><value>{value}</value><final>false</final></property>"
            for name, value in settings.items()
        )
    )


@pytest.fixture
def serve():
    """Starts web servers: path -> (status, text, headers). They count what they were asked."""
    servers = []

    def start(pages: dict):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.server.asked.append(self.path)
                status, text, headers = pages.get(self.path.partition("?")[0], (404, "", {}))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.asked = []
        server.at = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return server

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def write(path: Path, **settings: str) -> Path:
    path.mkdir(exist_ok=True)
    named = {name.replace("__", "."): value for name, value in settings.items()}
    (path / "yarn-site.xml").write_text(render(named))
    return path


# --- directories


def test_a_directory_names_managers_file_system_and_user(tmp_path):
    write(tmp_path, yarn__resourcemanager__hostname="rm")
    (tmp_path / "core-site.xml").write_text(render({"fs.defaultFS": "hdfs://nn:9000"}))
    cluster = find(str(tmp_path), {"HADOOP_USER_NAME": "alice"})
    assert cluster.user == "alice"
    assert cluster.clients == (Address("rm", 8032),)
    assert cluster.webs == ("http://rm:8088",)
    assert cluster.name_service.nodes[0].rpc == Address("nn", 9000)


def test_the_environment_names_the_directory_and_yarns_own_wins(tmp_path):
    hadoop = write(tmp_path / "hadoop", yarn__resourcemanager__hostname="old")
    (hadoop / "core-site.xml").write_text(render({"fs.defaultFS": "hdfs://nn"}))
    yarn = write(tmp_path / "yarn", yarn__resourcemanager__hostname="${env.RM}")
    environ = {"HADOOP_CONF_DIR": str(hadoop), "YARN_CONF_DIR": str(yarn), "RM": "new"}
    cluster = find(None, environ)
    assert cluster.clients == (Address("new", 8032),)
    assert cluster.name_service.name == "nn"


def test_without_a_name_the_operating_systems_user_acts(tmp_path):
    import os
    import pwd

    write(tmp_path, yarn__resourcemanager__hostname="rm")
    assert find(str(tmp_path), {}).user == pwd.getpwuid(os.getuid()).pw_name


def test_nothing_named_says_what_to_do():
    with pytest.raises(NoCluster, match="no YARN cluster is named") as failed:
        find(None, {})
    assert "HADOOP_CONF_DIR" in failed.value.hint


def test_a_directory_that_is_not_there_or_has_no_site(tmp_path):
    with pytest.raises(NoCluster, match="/nowhere is no directory"):
        find(f"{tmp_path}/nowhere", {})
    with pytest.raises(SiteFileError, match=r"there is no yarn-site\.xml"):
        find(str(tmp_path), {})
    (tmp_path / "yarn-site.xml").write_text("<configuration>")
    with pytest.raises(SiteFileError, match=f"{tmp_path}: yarn-site.xml is not well-formed"):
        find(str(tmp_path), {})


def test_kerberos_is_refused_in_words(tmp_path):
    write(
        tmp_path,
        yarn__resourcemanager__hostname="rm",
        hadoop__security__authentication="kerberos",
    )
    with pytest.raises(Refused, match="wants Kerberos, which Dromon cannot do yet"):
        find(str(tmp_path), {})


def test_pages_that_want_kerberos_are_named_as_such(serve):
    server = serve({"/conf": (401, "", {"WWW-Authenticate": "Negotiate"})})
    words = f"cannot be read: http://{server.at}/conf wants Kerberos, which Dromon cannot do yet$"
    with pytest.raises(EngineError, match=words):
        Cluster.from_address(f"http://{server.at}", {})


# --- addresses


def test_the_managers_own_page_tells_the_rest(serve):
    server = serve({"/conf": (200, conf_page(), {})})
    cluster = Cluster.from_address(f"http://{server.at}", {"HADOOP_USER_NAME": "bob"})
    (manager,) = cluster.managers
    # Addresses of every interface, and of the manager's own machine, are seen from here.
    assert (manager.client, manager.scheduler) == (
        Address("127.0.0.1", 8032),
        Address("127.0.0.1", 8030),
    )
    assert manager.web == f"http://{server.at}"
    assert cluster.name_service.nodes[0].rpc == Address("nn", 9000)


def test_a_port_that_turns_out_to_be_the_pages_one_is_understood(serve):
    server = serve({"/conf": (200, conf_page(), {})})
    (manager,) = Cluster.from_address(server.at, {}).managers
    assert manager.client == Address("127.0.0.1", 8032)
    assert manager.web == f"http://{server.at}"


def test_a_manager_with_a_peer_names_both(serve):
    page = conf_page(
        **{
            "yarn.resourcemanager.ha.enabled": "true",
            "yarn.resourcemanager.ha.rm-ids": "a,b",
            "yarn.resourcemanager.hostname.a": "rm-a",
            "yarn.resourcemanager.hostname.b": "rm-b",
        }
    )
    server = serve({"/conf": (200, page, {})})
    cluster = Cluster.from_address(f"http://{server.at}", {})
    assert cluster.clients == (Address("rm-a", 8032), Address("rm-b", 8032))


def test_of_two_addresses_the_one_that_answers_tells_the_ports_of_both(serve):
    server = serve({"/conf": (200, conf_page(), {})})
    cluster = Cluster.from_address(f"no-such-host.invalid:8050,http://{server.at}", {})
    first, second = cluster.managers
    assert (first.client, first.scheduler) == (
        Address("no-such-host.invalid", 8050),
        Address("no-such-host.invalid", 8030),
    )
    assert (second.client, second.web) == (Address("127.0.0.1", 8032), f"http://{server.at}")


def test_an_rpc_port_is_told_from_a_page_and_the_hint_says_what_to_name(serve):
    text = "It looks like you are making an HTTP request to a Hadoop IPC port."
    server = serve({"/conf": (404, text, {})})
    with pytest.raises(EngineError, match="is an RPC port, not a web page") as failed:
        Cluster.from_address(f"http://{server.at}", {})
    assert "HADOOP_CONF_DIR" in failed.value.hint


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ((200, "<html><p>hello</html>", {}), "not a Hadoop configuration"),
        ((200, "<html/>", {}), "not a Hadoop configuration"),
        ((500, "oops", {}), "answers 500"),
        # A standby that knows of no active one: to be asked again, and nowhere to go.
        ((307, "", {"Refresh": "3; url=/conf"}), "answers 307"),
    ],
)
def test_a_page_that_is_no_help(serve, page, words):
    server = serve({"/conf": page})
    with pytest.raises(EngineError, match=words):
        Cluster.from_address(f"http://{server.at}", {})


@pytest.mark.parametrize("text", ["ftp://rm", "", "rm:port", "rm:8032:9", " , "])
def test_what_is_no_address(text):
    with pytest.raises((NoCluster, SiteFileError)):
        Cluster.from_address(text, {})


# --- settings of the server


def test_the_servers_settings_are_asked_for_once_and_win(serve, tmp_path):
    server = serve({"/conf": (200, conf_page(), {})})
    write(
        tmp_path,
        yarn__resourcemanager__webapp__address=server.at,
        yarn__resourcemanager__hostname="127.0.0.1",
        **{"yarn.scheduler.minimum-allocation-mb": "64"},
    )
    cluster = find(str(tmp_path), {})
    assert cluster.effective("yarn.scheduler.minimum-allocation-mb") == "128"
    assert cluster.effective("yarn.resourcemanager.address") == "0.0.0.0:8032"
    assert cluster.effective("no.such", "default") == "default"
    assert server.asked == ["/conf"]


def test_where_the_page_is_closed_our_own_settings_count(serve, tmp_path):
    server = serve({})
    write(
        tmp_path,
        yarn__resourcemanager__webapp__address=server.at,
        yarn__resourcemanager__hostname="127.0.0.1",
        **{"yarn.scheduler.minimum-allocation-mb": "64"},
    )
    cluster = find(str(tmp_path), {})
    assert cluster.effective("yarn.scheduler.minimum-allocation-mb", "1024") == "64"
    assert cluster.effective("no.such", "default") == "default"
    assert server.asked == ["/conf"]


# --- pages


def test_rest_speaks_as_the_user_and_takes_the_one_that_answers(serve):
    dead, alive = serve({}), serve({"/ws/v1/cluster/info": (200, '{"clusterInfo": {}}', {})})
    pages = Pages([f"http://{dead.at}", f"http://{alive.at}/"], "alice")
    assert pages.rest("/info") == {"clusterInfo": {}}
    assert alive.asked == ["/ws/v1/cluster/info?user.name=alice"]


def test_a_standby_sends_us_on(serve):
    active = serve({"/ws/v1/cluster/info": (200, "{}", {})})
    moved = {"Location": f"http://{active.at}/ws/v1/cluster/info"}
    standby = serve({"/ws/v1/cluster/info": (307, "", moved)})
    assert Pages([f"http://{standby.at}"]).rest("/info") == {}


def test_an_answer_that_is_no_json(serve):
    server = serve({"/ws/v1/cluster/info": (200, "<html>", {})})
    with pytest.raises(PageFailed, match="is not JSON"):
        Pages([f"http://{server.at}"]).rest("/info")


def test_a_list_of_one_may_be_the_thing_itself():
    assert each(None) == each("") == []
    assert each({"a": 1}) == each([{"a": 1}]) == [{"a": 1}]


def test_conf_leaves_out_what_is_empty():
    site = parse_conf(render({"a": "", "b": "${c}", "c": "1"}))
    assert ("a" in site, site.get("b")) == (False, "1")
