"""Who we are to a server, and who it is to us: tokens, certificates, proxies."""

import base64
import json
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from apiserver import ApiServer, Certificates, reach

from dromon.engines.kubernetes.access import Acting, Certificate, Identity
from dromon.engines.kubernetes.http import Api
from dromon.engines.kubernetes.refusals import Expired, NotAuthenticated, Unreachable
from dromon.engines.kubernetes.volcano import POD


def token(**claims: Any) -> str:
    middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{middle}.sig"


def test_a_token_is_shown_and_a_refused_one_is_named(
    make_api: Callable[..., Api], plain_server: ApiServer
):
    plain_server.users = {"good": "ann"}
    said = "config: users[u].user"
    assert make_api(Identity(token="good", said=said)).list(POD) == []
    with pytest.raises(NotAuthenticated, match="does not accept the token") as caught:
        make_api(Identity(token="bad", said=said)).list(POD)
    assert "users[u]" in caught.value.hint
    with pytest.raises(NotAuthenticated, match="shown nothing"):
        make_api().list(POD)
    with pytest.raises(Expired, match="the token expired at 2001"):
        make_api(Identity(token=token(exp=1e9), said=said)).list(POD)


def test_a_token_file_that_changed_is_read_again(
    make_api: Callable[..., Api], plain_server: ApiServer, tmp_path: Path
):
    file = tmp_path / "token"
    file.write_text("one\n")
    plain_server.users = {"one": "ann"}
    api = make_api(Identity(token_file=str(file), said="here"))
    assert api.list(POD) == []
    plain_server.users = {"two": "ann"}
    with pytest.raises(NotAuthenticated, match=f"the token in {file}"):
        api.list(POD)
    (tmp_path / "next").write_text("two")
    (tmp_path / "next").rename(file)
    assert api.list(POD) == []


def test_acting_as_somebody_else_is_told_to_the_server(
    make_api: Callable[..., Api], plain_server: ApiServer
):
    make_api(acting=Acting("bob", ("devs", "ops"))).list(POD)
    headers = plain_server.requests[-1].headers
    assert headers["impersonate-user"] == "bob"
    assert headers["impersonate-groups"] == "devs,ops"


# --- TLS


def test_a_certificate_shows_who_we_are_and_sessions_are_resumed(
    make_api: Callable[..., Api],
    server: ApiServer,
    certificates: Certificates,
):
    server.users = {"none": "none"}
    chain, key = (Path(path).read_text() for path in certificates.signed("ann"))
    reached = reach(server, certificates)
    api = make_api(Identity(certificate=Certificate(chain, key), said="here"), reached=reached)
    for _ in range(3):
        assert api.list(POD) == []
    assert server.connections == 1
    server.cut()
    assert api.list(POD) == []
    assert server.requests[-1].client == "ann"
    with pytest.raises(NotAuthenticated, match="shown nothing"):
        make_api(reached=reached).list(POD)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_wants_a_certificate_says_so(
    make_api: Callable[..., Api],
    server: ApiServer,
    certificates: Certificates,
    version: ssl.TLSVersion,
):
    server.want_certificates(version)
    reached = reach(server, certificates)
    with pytest.raises(
        (NotAuthenticated, Unreachable), match=r"another client certificate|shown nothing"
    ):
        make_api(reached=reached).list(POD)
    chain, key = (Path(path).read_text() for path in certificates.signed("ann"))
    identity = Identity(certificate=Certificate(chain, key), said="here")
    assert make_api(identity, reached=reached).list(POD) == []


def test_a_server_nobody_vouches_for_is_not_spoken_with(
    make_api: Callable[..., Api],
    server: ApiServer,
    certificates: Certificates,
):
    with pytest.raises(Unreachable, match="certificate is not trusted"):
        make_api(reached=reach(server, certificates, ca="")).list(POD)
    with pytest.raises(Unreachable, match="certificate is not trusted: hostname mismatch"):
        make_api(reached=reach(server, certificates, name="other.test")).list(POD)
    assert server.requests == []
    assert make_api(reached=reach(server, certificates, name="api.test")).list(POD) == []
    assert make_api(reached=reach(server, certificates, ca="", insecure=True)).list(POD) == []


def test_a_plain_server_is_told_from_one_with_tls(
    make_api: Callable[..., Api], plain_server: ApiServer
):
    reached = reach(plain_server)._replace(scheme="https", insecure=True)
    with pytest.raises(Unreachable, match="does not speak TLS"):
        make_api(reached=reached).list(POD)


def test_a_proxy_is_gone_through(
    make_api: Callable[..., Api],
    server: ApiServer,
    certificates: Certificates,
):
    with Proxy(allowed="Basic " + base64.b64encode(b"me:my pass").decode()) as proxy:
        reached = reach(server, certificates, proxy=f"http://me:my%20pass@127.0.0.1:{proxy.port}")
        assert make_api(reached=reached).list(POD) == []
        assert proxy.asked == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"]
        closed = reach(server, certificates, proxy=f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(Unreachable, match=r"the proxy 127.0.0.1:\d+ answers 407"):
            make_api(reached=closed).list(POD)


class Proxy:
    """Passes on what it is asked to, for those it knows."""

    def __init__(self, allowed: str) -> None:
        self.asked: list[str] = []
        self._allowed = allowed
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            head = sock.recv(65536).decode()
            if self._allowed not in head:
                sock.sendall(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n")
                return
            line = head.split("\r\n")[0]
            self.asked.append(line)
            host, _, port = line.split()[1].rpartition(":")
            with socket.create_connection((host, int(port))) as other:
                sock.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_copy, args=(other, sock), daemon=True)
                back.start()
                _copy(sock, other)
                back.join()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
