"""Which cluster and as whom: kubeconfig files as kubectl reads them, pods, plug-ins."""

import base64
import json
import os
import stat
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver import ApiServer, Certificates
from ruamel.yaml import YAML

from dromon.engines.kubernetes.access import Access, Acting, KubeconfigError, proxy_of
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.kubeconfig import NoCluster, find
from dromon.engines.kubernetes.plugin import PluginFailed
from dromon.engines.kubernetes.refusals import NotAuthenticated
from dromon.engines.kubernetes.volcano import POD


def config(
    server: str = "http://127.0.0.1:1", *, name: str = "here", **more: Any
) -> dict[str, Any]:
    """A kubeconfig with one of each; `user=`, `cluster=`, `context=` are put into them."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {"name": f"{name}-c", "cluster": {"server": server, **more.get("cluster", {})}},
        ],
        "users": [{"name": f"{name}-u", "user": more.get("user", {})}],
        "contexts": [
            {
                "name": name,
                "context": {
                    "cluster": f"{name}-c", "user": f"{name}-u", **more.get("context", {}),
                },
            }
        ],
    }  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(data: Any, name: str = "config") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, str):
            path.write_text(data)
        else:
            with path.open("w") as file:
                YAML(typ="safe", pure=True).dump(data, file)
        return path

    return write


def data(path: str) -> str:
    return base64.b64encode(Path(path).read_bytes()).decode()


def lists_pods(access: Access) -> bool:
    with Api(access, timeout=5, patience=2) as api:
        return api.list(POD) == []


# --- files


def test_the_current_context_or_a_named_one(write: Any):
    both = config("https://one:6443/prefix/", name="one", context={"namespace": "team"})
    for key in ("clusters", "users", "contexts"):
        both[key] += config("http://two", name="two")[key]
    path = write(both)
    access = find(str(path), environ={})
    server = access.server
    assert (server.host, server.port, server.path, server.scheme) == (
        "one",
        6443,
        "/prefix",
        "https",
    )
    assert (access.namespace, access.context, access.source) == ("team", "one", str(path))
    other = find(str(path), "two", environ={})
    assert (other.server.port, other.namespace) == (80, "default")
    with pytest.raises(KubeconfigError, match="there is no context three") as caught:
        find(str(path), "three", environ={})
    assert "one, two" in caught.value.hint


def test_flags_are_read_as_kubectl_reads_them(write: Any):
    text = json.dumps(config("https://one")).replace(
        '"server"', '"insecure-skip-tls-verify": FLAG, "server"'
    )
    for flag, is_on in (("true", True), ("Yes", True), ("on", True), ("off", False)):
        path = write(text.replace("FLAG", flag))
        assert find(str(path), environ={}).server.insecure is is_on


def test_json_is_read_as_well(write: Any):
    path = write(json.dumps(config("https://one")))
    assert find(str(path), environ={}).server.port == 443


def test_of_several_files_the_first_that_has_a_name_wins(write: Any):
    first = config("http://first", name="a")
    del first["current-context"]
    second = config("http://second", name="a")
    second["contexts"] += config(name="b")["contexts"]
    second["clusters"] += config("http://b", name="b")["clusters"]
    second["current-context"] = "b"
    third = config(name="c")
    third["users"] = config(name="b")["users"]
    listed = os.pathsep.join(
        str(path)
        for path in (
            write(first, "1"), "", write(second, "2"), "/not/there", write(third, "3"),
        )
    )  # fmt: skip
    access = find(environ={"KUBECONFIG": listed})
    assert (access.context, access.server.host) == ("b", "b")
    assert find(environ={"KUBECONFIG": listed}, context="a").server.host == "first"


def test_without_a_word_it_is_the_one_in_the_home_directory(write: Any, tmp_path: Path):
    with pytest.raises(NoCluster, match="no Kubernetes cluster is named"):
        find(environ={"HOME": str(tmp_path)})
    write(config("http://home"), ".kube/config")
    assert find(environ={"HOME": str(tmp_path)}).server.host == "home"
    with pytest.raises(NoCluster, match="KUBECONFIG names /not/there"):
        find(environ={"HOME": str(tmp_path), "KUBECONFIG": "/not/there"})


def test_paths_are_relative_to_the_file_that_has_them(
    write: Any, certificates: Certificates, server: ApiServer
):
    server.users = {"none": "none"}
    chain, key = certificates.signed("ann")
    where = Path(certificates.ca).parent
    made = config(
        server.url,
        cluster={"certificate-authority": "../ca.crt"},
        user={
            "client-certificate": f"../{Path(chain).name}",
            "client-key": f"../{Path(key).name}",
        },
    )
    path = where / "inner" / "config"
    path.parent.mkdir()
    path.write_text(json.dumps(made))
    assert lists_pods(find(str(path), environ={}))
    assert server.requests[-1].client == "ann"


def test_a_certificate_in_the_file_itself_is_used_and_never_written_down(
    write: Any, certificates: Certificates, server: ApiServer, tmp_path: Path
):
    server.users = {"none": "none"}
    chain, key = certificates.signed("bob")
    path = write(
        config(
            server.url,
            cluster={"certificate-authority-data": data(certificates.ca)},
            user={"client-certificate-data": data(chain), "client-key-data": data(key)},
        )
    )
    before = set(tmp_path.iterdir())
    access = find(str(path), environ={})
    assert lists_pods(access)
    assert server.requests[-1].client == "bob"
    assert set(tmp_path.iterdir()) == before
    expiry = access.identity.expiry()
    assert expiry is not None
    assert time.time() + 86400 < expiry < time.time() + 3 * 86400
    assert Path(key).read_text() not in repr(access)


def test_tokens_passwords_and_whom_we_act_as(
    write: Any, plain_server: ApiServer, tmp_path: Path
):  # fmt: skip
    plain_server.users = {"t1": "ann", "t2": "bob"}
    (tmp_path / "token").write_text("t2\n")
    acts = {"as": "eve", "as-groups": ["devs"]}
    path = write(config(plain_server.url, user={"token": "t1", **acts}))
    access = find(str(path), environ={})
    assert lists_pods(access)
    assert access.acting == Acting("eve", ("devs",))
    assert find(str(path), environ={}, acting_as="mal", groups=["x"]).acting == Acting(
        "mal", ("x",)
    )
    path = write(config(plain_server.url, user={"token": "old", "tokenFile": "token"}))
    assert lists_pods(find(str(path), environ={}))
    path = write(config(plain_server.url, user={"token": "two\nlines"}))
    with pytest.raises(KubeconfigError, match=r"users\[here-u\].*the token has a line break"):
        lists_pods(find(str(path), environ={}))
    path = write(config(plain_server.url, user={"username": "ann", "password": "pä"}))
    with pytest.raises(NotAuthenticated):
        lists_pods(find(str(path), environ={}))
    shown = plain_server.requests[-1].headers["authorization"].removeprefix("Basic ")
    assert base64.b64decode(shown).decode() == "ann:pä"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1, 2", r"config:1 is not YAML"),
        ("- a\n", "config is no kubeconfig"),
        ("kind: Pod\n", "config is no kubeconfig"),
        ("a: \x00", "config is not YAML"),
        ("", "no context is current"),
        ("current-context: x\n", "current-context: there is no context x"),
        ("clusters: 3\n", "clusters: a list is wanted"),
        ("users: [3]\n", r"users\[0\]: it has no name"),
        ("contexts: [{name: a, context: 3}]\n", r"contexts\[a\].context: keys are wanted"),
        ("{", "config"),
    ],
)
def test_a_broken_file_is_said_with_the_place(write: Any, text: str, words: str):
    with pytest.raises(KubeconfigError, match=words):
        find(str(write(text)), environ={})


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"cluster": {"server": ""}}, r"clusters\[here-c\].cluster.server: no address"),
        ({"cluster": {"server": "ftp://x"}}, "ftp://x is no http or https address"),
        ({"cluster": {"server": "https://x:port"}}, "https://x:port is no address"),
        ({"cluster": {"server": ["x"]}}, "cluster.server: text is wanted"),
        ({"cluster": {"certificate-authority": "none.crt"}}, "none.crt cannot be read: no such"),
        ({"cluster": {"certificate-authority-data": "%%"}}, "authority-data: this is no base64"),
        ({"cluster": {"insecure-skip-tls-verify": "maybe"}}, "true or false is wanted"),
        ({"cluster": {"proxy-url": "socks5://u:secret@p:1"}}, "socks5://p:1: only proxies of http"),
        ({"user": {"client-certificate-data": "eA=="}}, "client-key: there is a client"),
        ({"user": {"as": "x", "as-groups": "y"}}, "as-groups: a list is wanted"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider: gcp was dropped"),
        ({"user": {"exec": {"command": "x"}}}, "exec.apiVersion: nothing is not spoken here"),
        (
            {"user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1"}}},
            "v1alpha1 is not spoken",
        ),
        (
            {"user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}},
            "exec.command: no command",
        ),
        ({"context": {"cluster": "gone"}}, "context.cluster: gone is not among clusters"),
        ({"context": {"user": "gone"}}, "context.user: gone is not among users"),
    ],
)  # fmt: skip
def test_a_wrong_key_is_named_with_its_file(write: Any, parts: Any, words: str):
    path = write(config(**parts))
    with pytest.raises(KubeconfigError, match=words) as caught:
        find(str(path), environ={})
    assert str(path) in str(caught.value)
    assert "secret" not in str(caught.value)


def test_certificates_that_are_none_are_said_where_they_stand(write: Any, certificates: Any):
    ann, bob = certificates.signed("ann"), certificates.signed("bob")
    bad = base64.b64encode(b"no certificate").decode()
    path = write(config("https://x", cluster={"certificate-authority-data": bad}))
    with pytest.raises(KubeconfigError, match=r"here-c.*no PEM certificate"):
        find(str(path), environ={}).tls()
    for key, words in ((bob[1], "do not belong together"), (certificates.ca, "cannot be read")):
        user = {"client-certificate-data": data(ann[0]), "client-key-data": data(key)}
        path = write(config("https://x", user=user))
        with pytest.raises(KubeconfigError, match=f"here-u.*{words}"):
            find(str(path), environ={}).tls()


def test_a_file_nobody_may_read_is_said_so(write: Any, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(KubeconfigError, match="folder cannot be read: is a directory"):
        find(str(tmp_path / "folder"), environ={})


# --- proxies


def test_the_environments_proxy_is_used_as_kubectl_does(write: Any):
    environ = {"HTTPS_PROXY": "http://p:3128", "NO_PROXY": "example.org,.b.test, 10.0.0.0/8"}
    path = write(config("https://far.test"))
    assert find(str(path), environ=environ).server.proxy == "http://p:3128"
    assert find(str(path), environ={}).server.proxy == ""
    for host in ("a.example.org", "example.org", "x.b.test", "10.1.2.3", "127.0.0.1", "localhost"):
        assert proxy_of("https", host, environ) == "", host
    assert proxy_of("https", "notexample.org", environ) == "http://p:3128"
    assert proxy_of("http", "far.test", environ) == ""
    assert proxy_of("https", "far.test", {"https_proxy": "p:1", "no_proxy": "*"}) == ""
    own = write(config("https://far.test", cluster={"proxy-url": "http://q:1"}))
    assert find(str(own), environ=environ).server.proxy == "http://q:1"


# --- pods


def test_inside_a_pod_its_service_account_is_used(
    certificates: Certificates, server: ApiServer, tmp_path: Path
):
    server.users = {"first": "system:serviceaccount:team:default"}
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("first")
    (account / "namespace").write_text("team")
    (account / "ca.crt").write_text(Path(certificates.ca).read_text())
    environ = {
        "HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }  # fmt: skip
    for where in ("", "in-cluster"):
        access = find(where, environ=environ, service_account=str(account))
        assert access.namespace == "team"
        assert lists_pods(access)
    server.users = {"second": "system:serviceaccount:team:default"}
    (account / "token").write_text("second, and longer")
    server.users = {"second, and longer": "x"}
    assert lists_pods(access)
    with pytest.raises(NoCluster, match="no pod"):
        find("in-cluster", environ={"HOME": str(tmp_path)}, service_account=str(account))


# --- plug-ins


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """`exec` of a program that runs this Python; it counts its runs in `runs`."""

    def make(body: str, **more: Any) -> dict[str, Any]:
        script = tmp_path / "bin" / "get-token"
        script.parent.mkdir(exist_ok=True)
        script.write_text(
            f"#!{sys.executable}\nimport json, os, sys\n"
            f"open({str(tmp_path / 'runs')!r}, 'a').write('x')\n"
            "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
            "def give(**status):\n"
            "    print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential',"
            " 'status': status}))\n" + textwrap.dedent(body)
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "bin/get-token",
            "interactiveMode": "Never", **more,
        }  # fmt: skip

    return make


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Callable[[], int]]:
    return lambda: len((tmp_path / "runs").read_text())  # type: ignore[return-value]


def test_a_plug_in_gives_a_token_once_for_as_long_as_it_lasts(
    write: Any, program: Any, runs: Any, plain_server: ApiServer
):
    plain_server.users = {"t-dev": "ann"}
    spec = program(
        "give(token='t-' + os.environ['ZONE'], expirationTimestamp='2999-01-01T00:00:00Z')",
        env=[{"name": "ZONE", "value": "dev"}],
    )
    access = find(str(write(config(plain_server.url, user={"exec": spec}))), environ=os.environ)
    with Api(access, timeout=5) as api:
        for _ in range(3):
            assert api.list(POD) == []
    assert runs() == 1


def test_what_has_expired_or_is_refused_is_asked_for_again(
    write: Any, program: Any, runs: Any, plain_server: ApiServer
):
    spec = program(
        "give(token='t%d' % len(open(os.path.dirname(sys.argv[0]) + '/../runs').read()),"
        " expirationTimestamp='2001-01-01T00:00:00Z')"
    )
    path = write(config(plain_server.url, user={"exec": spec}))
    access = find(str(path), environ=os.environ)
    with Api(access, timeout=5) as api:
        api.list(POD)
        count = runs()
        api.list(POD)
        assert runs() > count
    spec = program(
        "give(token='t%d' % len(open(os.path.dirname(sys.argv[0]) + '/../runs').read()))"
    )
    access = find(str(write(config(plain_server.url, user={"exec": spec}))), environ=os.environ)
    with Api(access, timeout=5) as api:
        first = runs() + 1
        plain_server.users = {f"t{first}": "ann"}
        assert api.list(POD) == []
        assert runs() == first
        plain_server.users = {f"t{first + 1}": "ann"}
        assert api.list(POD) == []
        plain_server.users = {"never": "ann"}
        with pytest.raises(NotAuthenticated, match="what bin/get-token gave") as caught:
            api.list(POD)
        assert "Log in again" in caught.value.hint
        assert runs() == first + 2


def test_a_plug_in_gives_a_certificate(
    write: Any, program: Any, certificates: Certificates, server: ApiServer
):
    server.users = {"none": "none"}
    chain, key = certificates.signed("eve")
    spec = program(
        f"give(clientCertificateData=open({chain!r}).read(), clientKeyData=open({key!r}).read())"
    )
    cluster = {"certificate-authority": certificates.ca}
    path = write(config(server.url, cluster=cluster, user={"exec": spec}))
    assert lists_pods(find(str(path), environ=os.environ))
    assert server.requests[-1].client == "eve"


def test_a_plug_in_hears_of_the_cluster_when_it_wants_to(
    write: Any, program: Any, plain_server: ApiServer, tmp_path: Path
):
    body = f"json.dump(info, open({str(tmp_path / 'heard')!r}, 'w'))\ngive(token='t')"
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {"extensions": [extension], "tls-server-name": "n"}
    for wants in (True, False):
        spec = program(
            body, provideClusterInfo=wants, apiVersion="client.authentication.k8s.io/v1beta1"
        )
        path = write(config(plain_server.url, cluster=cluster, user={"exec": spec}))
        assert lists_pods(find(str(path), environ=os.environ))
        heard = json.loads((tmp_path / "heard").read_text())
        assert heard["apiVersion"].endswith("/v1beta1")
        told = {"server": plain_server.url, "tls-server-name": "n", "config": {"audience": "a"}}
        assert heard["spec"] == {"interactive": False, **({"cluster": told} if wants else {})}


@pytest.mark.parametrize(
    ("body", "more", "words"),
    [
        ("sys.exit('no login\\nlog in first')", {}, "failed with code 1: log in first"),
        ("print('hello')", {}, "it is no ExecCredential"),
        ("give()", {}, "neither a token nor a certificate"),
        ("give(clientKeyData='k')", {}, "a certificate or a key, not both"),
        ("info['apiVersion'] = 'x/v9'; give(token='t')", {}, "it speaks x/v9"),
        ("give(token='t', expirationTimestamp='soon')", {}, "it is no ExecCredential"),
        ("give(token='t')", {"command": "not-there-at-all"}, "is not installed"),
        ("give(token='t')", {"interactiveMode": "Always"}, "there is no terminal"),
    ],
)
def test_a_plug_in_that_fails_is_named_with_its_words(
    write: Any, program: Any, monkeypatch: pytest.MonkeyPatch, body: str, more: Any, words: str
):
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        path = write(config(user={"exec": program(body, installHint="get it at x", **more)}))
        access = find(str(path), environ=os.environ)
        with pytest.raises(PluginFailed, match=words) as caught:
            lists_pods(access)
    assert f"{path}: users[here-u].user.exec" in str(caught.value)
    if "installed" in words:
        assert caught.value.hint == "get it at x"
