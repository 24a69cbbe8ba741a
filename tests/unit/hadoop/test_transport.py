"""Calls over real loopback sockets, to a server that speaks the real bytes."""

import socket
import threading

import pytest

from dromon.hadoop.addresses import Address
from dromon.hadoop.failover import Policy
from dromon.hadoop.faults import RemoteProtocolError, Unauthenticated
from dromon.hadoop.messages.master import APPLICATION_MASTER
from dromon.hadoop.sasl import Simple
from dromon.hadoop.token import Token
from dromon.hadoop.transport import FateUnknown, RpcClient, RpcFailed, Unreachable

TOKEN = Token(b"\x0a\x0bidentifier", b"password", "YARN_AM_RM_TOKEN")
STANDBY = "org.apache.hadoop.ipc.StandbyException"
PROTECTIONS = ("auth", "auth-int", "auth-conf")
ONCE = Policy(patience=-1)  # nobody is asked twice, but for the others of a round
QUICK = Policy(base=0.001, cap=0.001, patience=30)


@pytest.fixture
def client():
    made = []

    def make(*servers, auth=None, policy=QUICK, timeout=20.0):
        places = [server if isinstance(server, Address) else server.address for server in servers]
        made.append(
            RpcClient(
                APPLICATION_MASTER,
                places,
                auth or Simple("alice"),
                what="ResourceManager",
                policy=policy,
                timeout=timeout,
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def nobody():
    """An address that refuses connections for as long as the test takes."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # bound, not listening
        yield Address("127.0.0.1", sock.getsockname()[1])


def echo(call):
    return {"response_id": call.message["response_id"] + 1}


@pytest.mark.parametrize("step", [1, 3, 0])
@pytest.mark.parametrize("qop", PROTECTIONS)
def test_a_token_proves_itself_at_every_protection_however_bytes_are_cut(
    rpc_server, client, qop, step
):
    server = rpc_server(APPLICATION_MASTER, echo, token=TOKEN, qops=(qop,), step=step)
    manager = client(server, auth=TOKEN)
    answers = [manager.call("allocate", {"response_id": n})["response_id"] for n in range(3)]
    assert answers == [1, 2, 3]
    assert server.connections == 1


def test_a_user_is_taken_at_his_word_where_the_server_does_so(rpc_server, client):
    server = rpc_server(APPLICATION_MASTER, echo)
    client(server).call("allocate")
    assert [call.user for call in server.calls] == ["alice"]


def test_a_connection_dropped_while_idle_is_made_again_without_a_failed_call(rpc_server, client):
    server = rpc_server(APPLICATION_MASTER, echo)
    manager = client(server, policy=ONCE)
    manager.call("allocate")
    server.drop()
    assert manager.call("allocate", {"response_id": 5}, repeatable=False)["response_id"] == 6
    assert server.connections == 2
    first, second = server.calls
    assert first.client_id != second.client_id  # their numbers are the same


def test_a_call_of_unknown_fate_is_sent_again_only_where_that_does_no_harm(rpc_server, client):
    said = ["hang up"]
    server = rpc_server(APPLICATION_MASTER, lambda call: said.pop() if said else echo(call))
    assert client(server).call("allocate", {"response_id": 1})["response_id"] == 2
    assert [call.retry for call in server.calls] == [0, 1]
    said.append("hang up")
    with pytest.raises(FateUnknown) as failed:
        client(server).call("finishApplicationMaster", {}, repeatable=False)
    assert len(server.calls) == 3
    assert str(failed.value) == (
        f"the ResourceManager at {server.address} was asked for finishApplicationMaster and closed"
        " the connection before it answered; whether it was done is not known"
    )


def test_an_answer_cut_short_is_asked_for_again(rpc_server, client):
    said = ["cut"]
    server = rpc_server(APPLICATION_MASTER, lambda call: said.pop() if said else echo(call))
    assert client(server).call("allocate", {"response_id": 1})["response_id"] == 2


def test_a_server_that_never_answers_is_given_up(rpc_server, client):
    server = rpc_server(APPLICATION_MASTER, lambda call: "silence")
    with pytest.raises(Unreachable, match="did not answer within 0 s"):
        client(server, policy=ONCE, timeout=0.2).call("allocate")


def test_the_one_of_a_pair_that_lives_is_found_and_kept(rpc_server, client, nobody):
    server = rpc_server(APPLICATION_MASTER, echo)
    manager = client(nobody, server, policy=Policy(base=60, cap=60))
    for number in range(3):  # a wait of 60 s would not go unnoticed: nobody waits inside a round
        assert manager.call("allocate", {"response_id": number})["response_id"] == number + 1
    assert server.connections == 1


def test_a_standby_sends_us_to_the_active_one(rpc_server, client):
    asleep = rpc_server(APPLICATION_MASTER, lambda call: rpc_server.Fail(STANDBY, "not active"))
    active = rpc_server(APPLICATION_MASTER, echo)
    manager = client(asleep, active)
    assert manager.call("allocate", {"response_id": 1}, repeatable=False)["response_id"] == 2
    assert len(asleep.calls) == 1


def test_a_pair_on_standby_is_told_from_a_pair_that_is_down(rpc_server, client, nobody):
    def asleep(call):
        return rpc_server.Fail(STANDBY, "not active")

    one, two = rpc_server(APPLICATION_MASTER, asleep), rpc_server(APPLICATION_MASTER, asleep)
    with pytest.raises(Unreachable) as failed:
        client(one, two, policy=ONCE).call("allocate")
    assert str(failed.value) == (
        f"both ResourceManagers ({one.address}, {two.address}) are on standby"
    )
    with pytest.raises(Unreachable) as failed:
        client(one, nobody, policy=ONCE).call("allocate")
    assert str(failed.value) == (
        f"none of the 2 ResourceManagers answers: {one.address} is on standby;"
        f" {nobody} refused the connection"
    )


def test_one_that_is_down_is_named(client, nobody):
    with pytest.raises(Unreachable) as failed:
        client(nobody, policy=ONCE).call("allocate")
    assert str(failed.value) == (
        f"the ResourceManager at {nobody} refused the connection: is it running?"
    )


def test_a_server_that_starts_late_is_waited_for(rpc_server, client):
    said = [rpc_server.Fail("org.apache.hadoop.ipc.RetriableException", "starting")] * 3
    server = rpc_server(APPLICATION_MASTER, lambda call: said.pop() if said else echo(call))
    assert client(server).call("allocate", {"response_id": 1})["response_id"] == 2
    assert (len(server.calls), server.connections) == (4, 1)


def test_a_server_that_asks_for_patience_too_long_is_quoted(rpc_server, client):
    busy = rpc_server.Fail("org.apache.hadoop.ipc.RetriableException", "still starting")
    server = rpc_server(APPLICATION_MASTER, lambda call: busy)
    with pytest.raises(RpcFailed, match="still starting"):
        client(server, policy=ONCE).call("allocate")


def test_a_name_that_does_not_resolve(client):
    with pytest.raises(Unreachable, match=r"the name no-such-host\.invalid is not known"):
        client(Address("no-such-host.invalid", 8032), policy=ONCE).call("allocate")


def test_a_refusal_has_the_servers_words_and_leaves_the_connection(rpc_server, client):
    name = "org.apache.hadoop.yarn.exceptions.ApplicationNotFoundException"
    said = [rpc_server.Fail(name, "no such\nthing")]
    server = rpc_server(APPLICATION_MASTER, lambda call: said.pop() if said else echo(call))
    manager = client(server)
    with pytest.raises(RpcFailed) as failed:
        manager.call("allocate")
    assert (failed.value.exception, failed.value.text) == (name, "no such\nthing")
    assert failed.value.name == "ApplicationNotFoundException"
    assert str(failed.value) == (
        f"the ResourceManager at {server.address} refused allocate: no such"
        " (ApplicationNotFoundException)"
    )
    manager.call("allocate")
    assert server.connections == 1


def test_a_fatal_answer_is_the_servers_words_too_and_the_next_call_connects_anew(
    rpc_server, client
):
    said = [rpc_server.GiveUp("org.apache.hadoop.ipc.RPC$VersionMismatch", "too old")]
    server = rpc_server(APPLICATION_MASTER, lambda call: said.pop() if said else echo(call))
    manager = client(server)
    with pytest.raises(RpcFailed, match="too old") as failed:
        manager.call("allocate")
    assert failed.value.name == "VersionMismatch"
    manager.call("allocate")
    assert server.connections == 2


def test_a_wrong_token_is_refused_with_the_servers_reason(rpc_server, client):
    server = rpc_server(APPLICATION_MASTER, echo, token=TOKEN)
    wrong = Token(TOKEN.identifier, b"another", TOKEN.kind)
    manager = client(server, auth=wrong)
    with pytest.raises(RpcFailed) as failed:
        manager.call("allocate")
    assert failed.value.exception == "javax.security.sasl.SaslException"
    manager.use(TOKEN)
    manager.call("allocate")


def test_a_port_that_takes_tokens_only_says_so_to_a_user(rpc_server, client):
    server = rpc_server(APPLICATION_MASTER, echo, token=TOKEN)
    with pytest.raises(RpcFailed, match="SIMPLE authentication is not enabled") as failed:
        client(server).call("allocate")
    assert "takes tokens only" in failed.value.hint


def test_a_server_without_security_is_no_place_for_a_token(rpc_server, client):
    server = rpc_server(APPLICATION_MASTER, echo)
    with pytest.raises(Unauthenticated, match=str(server.address)):
        client(server, auth=TOKEN).call("allocate")


def test_the_reason_is_read_although_writing_failed(client):
    """The server answers and resets before we have written all: the reason waits in the socket."""
    from dromon.hadoop.server import RpcServerConnection

    listener = socket.create_server(("127.0.0.1", 0))
    server = RpcServerConnection(APPLICATION_MASTER)
    server.give_up("org.apache.hadoop.security.AccessControlException", "go away")

    def serve():
        sock, _ = listener.accept()
        sock.sendall(server.data_to_send())
        sock.close()  # with our request unread: a reset

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        big = {"tracking_url": "x" * 50_000_000}
        with pytest.raises(RpcFailed, match="go away"):
            client(Address(*listener.getsockname())).call("allocate", big)
    finally:
        thread.join()
        listener.close()


def test_a_web_server_is_recognised(client):
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        sock, _ = listener.accept()
        sock.sendall(b"HTTP/1.1 400 Illegal character\r\nConnection: close\r\n\r\n")
        sock.recv(65536)
        sock.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with pytest.raises(RemoteProtocolError, match="this is a web server"):
            client(Address(*listener.getsockname())).call("allocate")
    finally:
        thread.join()
        listener.close()


def test_a_call_that_was_interrupted_leaves_no_half_request_behind(rpc_server, client):
    from dromon.hadoop.faults import LocalProtocolError

    server = rpc_server(APPLICATION_MASTER, echo)
    manager = client(server)
    manager.call("allocate")
    with pytest.raises(LocalProtocolError):
        manager.call("allocate", {"no_such_field": 1})
    assert manager.call("allocate", {"response_id": 1})["response_id"] == 2
    assert [call.method for call in server.calls] == ["allocate", "allocate"]


def test_threads_take_turns(rpc_server, client):
    server = rpc_server(APPLICATION_MASTER, echo)
    manager = client(server)
    heard = {}

    def ask(first):
        heard[first] = [
            manager.call("allocate", {"response_id": n})["response_id"]
            for n in range(first, first + 20)
        ]

    threads = [threading.Thread(target=ask, args=(100 * n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == {100 * n: list(range(100 * n + 1, 100 * n + 21)) for n in range(6)}
    assert server.connections == 1


def test_closing_ends_a_call_that_waits(rpc_server, client):
    arrived = threading.Event()

    def stay_silent(call):
        arrived.set()
        return "silence"

    manager = client(rpc_server(APPLICATION_MASTER, stay_silent), timeout=3600)
    errors = []

    def ask():
        try:
            manager.call("allocate")
        except Unreachable as error:
            errors.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    assert arrived.wait(20)
    manager.close()
    thread.join(20)
    assert len(errors) == 1
    with pytest.raises(Unreachable, match="closed here"):
        manager.call("allocate")
