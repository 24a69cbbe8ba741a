"""Who we say we are, to a real API server: certificates, tokens, a pod's account, plug-ins, and
contexts that name them."""

import base64
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jobs
import pytest
from testbeds.kubernetes.bed import Bed
from testbeds.kubernetes.plan import IMAGE

from dromon.engines.kubernetes.access import Access, Certificate, Identity
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.kubeconfig import find
from dromon.engines.kubernetes.plugin import PluginFailed
from dromon.engines.kubernetes.refusals import Expired, NotAllowed, NotAuthenticated
from dromon.engines.kubernetes.volcano import POD, SECRET, Kind

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
LEEWAY = 60  # seconds for which the API server takes a token that has run out
PLUGIN = f"""#!{sys.executable} -S
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
with open(here + "/runs", "a+") as file:
    file.write("x")
    file.seek(0)
    run = len(file.read())
with open(here + "/answers") as file:
    answers = json.load(file)
answer = answers[min(run, len(answers)) - 1]
if isinstance(answer, str):
    sys.exit(answer)
version = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["apiVersion"]
print(json.dumps({{"apiVersion": version, "kind": "ExecCredential", "status": answer}}))
"""


class Account(NamedTuple):
    """A service account that may look at its namespace, and tokens of it."""

    namespace: str
    name: str
    uid: str
    key: str

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    def token(self, seconds: float) -> str:
        """As the API server makes them; it runs out so much later."""
        issuer, now = "https://kubernetes.default.svc.cluster.local", int(time.time())
        claims = {
            "iss": issuer, "aud": [issuer], "sub": self.user,
            "iat": now - 7200, "nbf": now - 7200, "exp": now + int(seconds),
            "kubernetes.io": {
                "namespace": self.namespace,
                "serviceaccount": {"name": self.name, "uid": self.uid},
            },
        }  # fmt: skip
        return signed(claims, self.key)


@pytest.fixture
def account(bed: Bed, api: Api, space: str) -> Account:
    about = api.create(jobs.ACCOUNT, space, {"metadata": {"name": "robot"}})["metadata"]
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": space}
    role = {"apiGroup": BINDING.group, "kind": "ClusterRole", "name": "view"}
    binding = {"metadata": {"name": "robot"}, "roleRef": role, "subjects": [subject]}
    api.create(BINDING, space, binding)
    return Account(space, "robot", about["uid"], bed.plan.conf("accounts.key"))


class Login:
    """A plug-in that gives these answers, one after the other, and fails with those that are
    texts; and a kubeconfig that names it, relative to itself."""

    def __init__(self, bed: Bed, folder: Path, *answers: dict[str, str] | str) -> None:
        self._folder = folder
        (folder / "login").write_text(PLUGIN)
        (folder / "login").chmod(0o755)
        (folder / "answers").write_text(json.dumps(answers))
        spec = {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "./login",
            "interactiveMode": "Never",
        }  # fmt: skip
        config = json.loads(Path(bed.kubeconfig).read_text())
        config["users"][0]["user"] = {"exec": spec}
        self.kubeconfig = str(folder / "kubeconfig")
        Path(self.kubeconfig).write_text(json.dumps(config))

    @property
    def runs(self) -> int:
        return len((self._folder / "runs").read_text())


def as_somebody(api: Api, identity: Identity) -> Api:
    return Api(Access(api.access.server, identity, source="here"), patience=5)


def test_an_expired_certificate_is_said_to_be_expired(bed: Bed, api: Api, tmp_path: Path):
    key, request, chain = tmp_path / "key", tmp_path / "csr", tmp_path / "crt"
    for words in (
        f"req -new -newkey rsa:2048 -nodes -subj /O=x/CN=ann -keyout {key} -out {request}",
        f"x509 -req -in {request} -CA {bed.plan.conf('ca.crt')} -CAkey {bed.plan.conf('ca.key')}"
        f" -set_serial 7 -days 0 -out {chain}",
    ):
        subprocess.run(["openssl", *words.split()], check=True, capture_output=True)
    time.sleep(1.1)  # its last second is over
    identity = Identity(certificate=Certificate(chain.read_text(), key.read_text()), said="here")
    with (
        as_somebody(api, identity) as ann,
        pytest.raises(Expired, match="the client certificate expired at"),
    ):
        ann.list(POD)


def test_an_expired_token_is_said_to_be_expired(bed: Bed, api: Api, account: Account):
    said = "users[u].user"
    with (
        as_somebody(api, Identity(token=account.token(3600), said=said)) as known,
        pytest.raises(NotAllowed, match=f"{account.user} may not list pods in the whole cluster"),
    ):
        known.list(POD)
    with (
        as_somebody(api, Identity(token=account.token(-3600), said=said)) as unknown,
        pytest.raises(Expired, match="the token expired at") as caught,
    ):
        unknown.list(POD)
    assert said in caught.value.hint


def test_a_pods_account_is_used_and_its_token_read_again(api: Api, space: str, tmp_path: Path):
    api.create(jobs.ACCOUNT, space, {"metadata": {"name": "short"}})

    def issue() -> str:
        body = {"spec": {"expirationSeconds": 600}}
        request = Kind("authentication.k8s.io", "v1", "TokenRequest", "serviceaccounts/short/token")
        path = Kind("", "v1", request.name, request.plural)
        typed = {"apiVersion": request.api_version, "kind": request.name, **body}
        return str(api.create(path, space, typed)["status"]["token"])

    server = api.access.server
    (tmp_path / "ca.crt").write_text(server.ca)
    (tmp_path / "namespace").write_text(space)
    (tmp_path / "token").write_text("worn out")
    environ = {"KUBERNETES_SERVICE_HOST": server.host, "KUBERNETES_SERVICE_PORT": str(server.port)}
    access = find("in-cluster", environ=environ, service_account=str(tmp_path))
    with Api(access) as inside:
        with pytest.raises(NotAuthenticated, match="the token in"):
            inside.list(POD, space)
        (tmp_path / "token").write_text(issue())
        with pytest.raises(NotAllowed, match=f"system:serviceaccount:{space}:short may not list"):
            inside.list(POD, access.namespace)


def test_nobody_is_told_to_log_in(api: Api):
    with (
        as_somebody(api, Identity(said="here")) as nobody,
        pytest.raises(NotAuthenticated, match="it was shown nothing"),
    ):
        nobody.list(POD)


# --- plug-ins


def test_a_plug_in_gives_a_certificate(bed: Bed, tmp_path: Path):
    own = json.loads(Path(bed.kubeconfig_of("alice")).read_text())["users"][0]["user"]
    answer = {
        "clientCertificateData": Path(own["client-certificate"]).read_text(),
        "clientKeyData": Path(own["client-key"]).read_text(),
    }
    login = Login(bed, tmp_path, answer)
    with Api(find(login.kubeconfig)) as alice:
        assert isinstance(alice.list(POD, "default"), list)
        with pytest.raises(NotAllowed, match="alice may not list secrets in namespace kube-system"):
            alice.list(SECRET, "kube-system")
    assert login.runs == 1


def test_a_token_that_runs_out_while_it_is_used_is_asked_for_anew(
    bed: Bed, account: Account, tmp_path: Path
):
    """Nobody told us until when it holds: the server's refusal does."""
    short, long = account.token(15 - LEEWAY), account.token(3600)
    login = Login(bed, tmp_path, {"token": short}, {"token": long})
    with Api(find(login.kubeconfig)) as robot:
        robot.list(POD, account.namespace)
        assert login.runs == 1

        def is_asked_anew() -> bool:
            robot.list(POD, account.namespace)
            return login.runs > 1

        assert jobs.until(is_asked_anew, every=0.5)
        robot.list(POD, account.namespace)
    assert login.runs == 2


def test_what_a_plug_in_gives_and_nobody_takes_is_said_once(
    bed: Bed, account: Account, tmp_path: Path
):
    login = Login(bed, tmp_path, {"token": account.token(-3600)})
    with (
        Api(find(login.kubeconfig)) as robot,
        pytest.raises(Expired, match=r"what \./login gave expired at") as caught,
    ):
        robot.list(POD)
    assert "Log in again" in caught.value.hint
    assert login.runs == 2  # and the new one was no better


def test_a_plug_in_that_fails_after_a_refusal_is_heard(bed: Bed, account: Account, tmp_path: Path):
    login = Login(bed, tmp_path, {"token": account.token(-3600)}, "your session is over")
    with (
        Api(find(login.kubeconfig)) as robot,
        pytest.raises(PluginFailed, match="login failed with code 1: your session is over"),
    ):
        robot.list(POD)


@pytest.mark.parametrize("words", [("run", "job.yaml"), ("ps",)], ids=lambda words: words[0])
def test_the_command_says_what_the_plug_in_said(bed: Bed, tmp_path: Path, words: tuple[str, ...]):
    login = Login(bed, tmp_path, "log in first")
    (tmp_path / "job.yaml").write_text(JOB_FILE)
    done = jobs.command(tmp_path, login.kubeconfig, *words, "--on", "kubernetes")
    assert done.returncode == 69, (done.returncode, done.stdout, done.stderr)
    assert done.stderr.count("./login failed with code 1: log in first") == 1
    assert f"{login.kubeconfig}: users[admin].user.exec" in done.stderr
    assert "Traceback" not in done.stderr


# --- contexts


JOB_FILE = f"""\
name: job
environment: {{image: "{IMAGE}"}}
command: "true"
"""


def test_a_context_says_where_and_as_whom_and_for_one_command_as_somebody_else(
    bed: Bed, space: str, tmp_path: Path
):
    """Of one kubeconfig: its current context, another by name, another namespace, another user."""
    config, alices = (
        json.loads(Path(path).read_text()) for path in (bed.kubeconfig, bed.kubeconfig_of("alice"))
    )
    config["contexts"][0]["context"]["namespace"] = space
    config["users"] += alices["users"]
    theirs = {"cluster": "testbed", "user": "alice", "namespace": space}
    config["contexts"].append({"name": "hers", "context": theirs})
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(config))
    (tmp_path / "job.yaml").write_text(JOB_FILE)

    def dromon(*words: str) -> str:
        done = jobs.command(tmp_path, str(file), *words)
        return done.stdout + done.stderr

    def submitted(*words: str) -> str:
        said = dromon("run", "-d", "job.yaml", *words)
        return said.split()[0]

    def jobs_of(namespace: str) -> set[str]:
        return set(bed.kubectl("get", "vcjob", "-n", namespace, "-o", "name").stdout.split())

    here = submitted("--on", "kubernetes")
    assert jobs_of(space) == {f"job.batch.volcano.sh/{here}"}
    said = dromon("ps", "--on", "kubernetes", "--as", "alice")
    assert f"alice may not list jobs in namespace {space}" in said
    dromon("context", "add", "hers", "--kubernetes", f"{file}#hers")
    assert f"alice may not list jobs in namespace {space}" in dromon("ps", "--on", "hers")
    dromon("context", "add", "there", "--kubernetes", f"{file}#hers", "--set", "namespace=default")
    there = submitted("--on", "there")
    assert f"job.batch.volcano.sh/{there}" in jobs_of("default")
    assert "alice may not impersonate users" in dromon("ps", "--on", "there", "--as", "bob")
    assert bed.kubectl("delete", "vcjob", there, "-n", "default").returncode == 0


def signed(claims: dict[str, Any], key: str) -> str:
    """A token as the API server makes them."""

    def text(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")

    head = {"alg": "ES256"}
    body = f"{text(json.dumps(head).encode())}.{text(json.dumps(claims).encode())}"
    words = ["openssl", "dgst", "-sha256", "-sign", key]
    made = subprocess.run(words, input=body.encode(), capture_output=True, check=True).stdout
    return f"{body}.{text(_raw(made))}"


def _raw(der: bytes) -> bytes:
    """The two numbers of a signature, 32 bytes each."""
    at, numbers = 2, b""
    for _ in range(2):
        length = der[at + 1]
        numbers += der[at + 2 : at + 2 + length].lstrip(b"\0").rjust(32, b"\0")
        at += 2 + length
    return numbers
