import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.hadoop import framing
from dromon.hadoop.connection import RpcConnection
from dromon.hadoop.digest import DigestServer, password_of, user_of
from dromon.hadoop.events import Closed, Fatal, Reply, RpcError
from dromon.hadoop.faults import (
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    Unauthenticated,
)  # fmt: skip
from dromon.hadoop.messages.master import APPLICATION_MASTER
from dromon.hadoop.messages.rpc import RPC_RESPONSE_HEADER, RPC_SASL
from dromon.hadoop.sasl import Auth, DigestMd5, Simple
from dromon.hadoop.server import RpcServerConnection
from dromon.hadoop.token import Token

TOKEN = Token(b"\x0a\x0bidentifier", b"password", "YARN_AM_RM_TOKEN")
CLIENT_ID = bytes(range(16))
PROTECTIONS = ("auth", "auth-int", "auth-conf")
SASL = framing.SASL_ID & 0xFFFFFFFF


def connect(auth: Auth | None = None) -> RpcConnection:
    return RpcConnection(APPLICATION_MASTER, auth or DigestMd5(TOKEN, "cnonce"), CLIENT_ID)


def serve(*qops: str, password: str = password_of(TOKEN)) -> RpcServerConnection:
    digest = DigestServer({user_of(TOKEN): password}.get, "nonce", qops=qops or ("auth",))
    return RpcServerConnection(APPLICATION_MASTER, digest)


def exchange(conn: RpcConnection, server: RpcServerConnection, step: int = 1 << 20) -> None:
    """Carries bytes both ways until nobody has anything to say."""
    while True:
        asked = conn.data_to_send()
        for start in range(0, len(asked), step):
            server.receive_data(asked[start : start + step])
        told = server.data_to_send()
        for start in range(0, len(told), step):
            conn.receive_data(told[start : start + step])
        if not asked and not told:
            return


def answer(call_id: int, status: int = 0, **more: object) -> bytes:
    header = {"call_id": call_id, "status": status, **more}
    if status:
        return framing.pack((RPC_RESPONSE_HEADER, header))
    table = APPLICATION_MASTER.method("allocate").response
    return framing.pack((RPC_RESPONSE_HEADER, header), (table, {"response_id": 1}))


def sasl(state: int, **more: object) -> bytes:
    header = {"call_id": SASL, "status": 0}
    return framing.pack((RPC_RESPONSE_HEADER, header), (RPC_SASL, {"state": state, **more}))


@pytest.mark.parametrize("step", [1, 3, 1 << 20])
@pytest.mark.parametrize("qop", PROTECTIONS)
def test_calls_made_before_the_handshake_are_answered_after_it(qop, step):
    conn, server = connect(), serve(qop)
    first = conn.call("allocate", {"response_id": 5, "ask": [{"num_containers": 3}]})
    second = conn.call("finishApplicationMaster", {"diagnostics": "bye"})
    exchange(conn, server, step)
    calls = server.calls_received()
    assert [(call.method, call.user, call.client_id, call.retry) for call in calls] == [
        ("allocate", user_of(TOKEN), CLIENT_ID, 0),
        ("finishApplicationMaster", user_of(TOKEN), CLIENT_ID, 0),
    ]
    assert calls[0].message == {"response_id": 5, "ask": [{"num_containers": 3}]}
    assert server.context == {"user_info": {}, "protocol": APPLICATION_MASTER.name}
    server.reply(second, {"is_unregistered": True})  # out of order
    server.reply(first, {"response_id": 6})
    exchange(conn, server, step)
    assert conn.events_received() == [
        Reply(second, "finishApplicationMaster", {"is_unregistered": True}),
        Reply(first, "allocate", {"response_id": 6}),
    ]
    assert conn.events_received() == []
    assert conn.calls_open == ()


@pytest.mark.parametrize("qop", PROTECTIONS)
def test_an_error_of_one_call_leaves_the_connection_open(qop):
    conn, server = connect(), serve(qop)
    bad = conn.call("allocate", {"response_id": 9}, retry=2)
    exchange(conn, server)
    assert server.calls_received()[0].retry == 2
    name = "org.apache.hadoop.yarn.exceptions.InvalidApplicationMasterRequestException"
    server.fail(bad, name, "Invalid responseId\nin two lines")
    exchange(conn, server)
    (error,) = conn.events_received()
    assert isinstance(error, RpcError)
    assert (error.call_id, error.method, error.exception) == (bad, "allocate", name)
    assert error.text == "Invalid responseId\nin two lines"
    assert error.trace == "org.apache.hadoop.ipc.Server.call(Server.java)"
    good = conn.call("allocate", {"response_id": 0})
    exchange(conn, server)
    server.reply(good, {})
    exchange(conn, server)
    assert [event.call_id for event in conn.events_received()] == [good]


@pytest.mark.parametrize("qop", PROTECTIONS)
def test_a_fatal_error_ends_the_connection_and_names_the_lost_calls(qop):
    conn, server = connect(), serve(qop)
    calls = (conn.call("allocate", {}), conn.call("allocate", {}))
    exchange(conn, server)
    server.give_up("org.apache.hadoop.ipc.RpcServerException", "no more", 10)
    exchange(conn, server)
    (fatal,) = conn.events_received()
    assert fatal == Fatal(
        "org.apache.hadoop.ipc.RpcServerException",
        "no more",
        "org.apache.hadoop.ipc.Server.call(Server.java)",
        10,
        calls,
    )
    assert conn.state == "closed"
    with pytest.raises(LocalProtocolError, match="allocate: the connection is closed"):
        conn.call("allocate", {})
    conn.receive_data(b"whatever comes now")
    assert conn.events_received() == []


@pytest.mark.parametrize("qop", PROTECTIONS)
def test_messages_larger_than_one_wrap_go_both_ways(qop):
    conn, server = connect(), serve(qop)
    big = "x" * 200_000
    call = conn.call("allocate", {"tracking_url": big})
    exchange(conn, server)
    assert server.calls_received()[0].message["tracking_url"] == big
    server.reply(call, {"completed_container_statuses": [{"diagnostics": big}]})
    exchange(conn, server)
    (reply,) = conn.events_received()
    assert isinstance(reply, Reply)
    assert reply.message["completed_container_statuses"][0]["diagnostics"] == big


@pytest.mark.parametrize("qop", PROTECTIONS)
def test_a_ping_is_heard_and_not_answered(qop):
    conn, server = connect(), serve(qop)
    conn.ping()  # too early: there is nobody yet who would understand
    exchange(conn, server)
    assert server.pings == 0
    conn.ping()
    exchange(conn, server)
    assert server.pings == 1
    assert conn.events_received() == []


def test_simple_authentication_sends_everything_at_once():
    conn, server = (
        connect(Simple("alice", real_user="oozie")),
        RpcServerConnection(APPLICATION_MASTER),
    )
    call = conn.call("allocate", {})
    server.receive_data(conn.data_to_send())
    (heard,) = server.calls_received()
    assert heard.user == "alice"
    assert server.context is not None
    assert server.context["user_info"] == {"effective_user": "alice", "real_user": "oozie"}
    server.reply(call, {})
    exchange(conn, server)
    assert conn.events_received() == [Reply(call, "allocate", {})]


def test_the_handshake_begins_with_the_bytes_hadoop_expects():
    assert connect().data_to_send() == bytes.fromhex(
        "68727063 09 00 df 0000000e 0a08021000184122002801 021001"
    )


def test_the_context_of_a_token_names_no_user_and_a_ping_is_a_header_alone():
    conn, server = connect(), serve()
    server.receive_data(conn.data_to_send())
    conn.receive_data(server.data_to_send())
    server.receive_data(conn.data_to_send())
    conn.receive_data(server.data_to_send())
    conn.ping()
    header = bytes.fromhex("1a080210001805 2210000102030405060708090a0b0c0d0e0f 2801")
    context = bytes.fromhex("3a12001a36") + APPLICATION_MASTER.name.encode()
    ping = bytes.fromhex("1a080210001807 2210000102030405060708090a0b0c0d0e0f 2801")
    assert conn.data_to_send() == (
        bytes.fromhex("00000056") + header + context + bytes.fromhex("0000001b") + ping
    )


def test_a_wrong_password_is_told_as_the_server_tells_it():
    conn, server = connect(), serve(password="something else")
    call = conn.call("allocate", {})
    exchange(conn, server)
    (fatal,) = conn.events_received()
    assert isinstance(fatal, Fatal)
    assert fatal.exception == "javax.security.sasl.SaslException"
    assert (fatal.detail, fatal.lost) == (15, (call,))


def test_a_simple_client_is_told_that_tokens_are_wanted():
    conn, server = connect(Simple("alice")), serve()
    exchange(conn, server)
    (fatal,) = conn.events_received()
    assert isinstance(fatal, Fatal)
    assert fatal.text == "SIMPLE authentication is not enabled.  Available:[TOKEN]"


def test_a_server_without_security_does_not_get_a_token_users_calls():
    conn, server = connect(), RpcServerConnection(APPLICATION_MASTER)
    call = conn.call("allocate", {})
    with pytest.raises(Unauthenticated, match="no proof at all"):
        exchange(conn, server)
    assert conn.events_received() == [Closed((call,))]
    assert server.calls_received() == []


def test_a_server_that_offers_other_methods_only_is_named():
    offer = {"method": "KERBEROS", "mechanism": "GSSAPI", "protocol": "rm", "server_id": "host"}
    with pytest.raises(Unauthenticated, match="takes KERBEROS; Dromon came with TOKEN"):
        connect().receive_data(sasl(1, auths=[offer]))
    with pytest.raises(Unauthenticated, match="takes nothing"):
        connect().receive_data(sasl(1))


def test_another_mechanism_for_tokens_is_refused_with_its_name():
    offer = {"method": "TOKEN", "mechanism": "SCRAM-SHA-512", "protocol": "", "server_id": "x"}
    with pytest.raises(Unauthenticated, match="TOKEN by SCRAM-SHA-512; Dromon has DIGEST-MD5"):
        connect().receive_data(sasl(1, auths=[offer]))


def test_success_before_the_server_proved_itself_is_not_believed():
    server = serve()
    conn = connect()
    server.receive_data(conn.data_to_send())
    conn.receive_data(server.data_to_send())
    with pytest.raises(Unauthenticated, match="without having proved itself"):
        conn.receive_data(sasl(0))


def test_the_first_challenge_may_come_after_the_offer():
    digest = DigestServer({user_of(TOKEN): password_of(TOKEN)}.get, "nonce")
    offer = {"method": "TOKEN", "mechanism": "DIGEST-MD5", "protocol": "", "server_id": "default"}
    conn = connect()
    conn.data_to_send()
    conn.receive_data(sasl(1, auths=[offer]))
    assert conn.data_to_send().endswith(b"default")
    conn.receive_data(sasl(3, token=digest.challenge()))
    said = conn.data_to_send()
    conn.receive_data(sasl(0, token=digest.accept(said[said.index(b"charset") :])))
    assert conn.state == "open"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (answer(0), "before it knows who asks"),
        (sasl(3, token=b""), "out of turn"),
        (sasl(5, token=b""), "out of turn"),
        (sasl(1) + b"", "takes nothing"),
        (b"HTTP/1.1 404 Not Found\r\n", "web server"),
        (b"\0\0\0\2\x05\x08", "bytes, but"),
        (b"\0\0\0\0", "middle of a number"),
    ],
)
def test_a_handshake_that_makes_no_sense_is_the_servers_fault(data, words):
    conn = connect()
    call = conn.call("allocate", {})
    with pytest.raises(ProtocolError, match=words):
        conn.receive_data(data)
    assert conn.events_received() == [Closed((call,))]
    assert conn.state == "closed"


def test_an_answer_to_a_call_that_was_not_made_is_the_servers_fault():
    conn = connect(Simple("alice"))
    conn.call("allocate", {})
    with pytest.raises(RemoteProtocolError, match="call 7, which was not made"):
        conn.receive_data(answer(0) + answer(7))
    assert [type(event) for event in conn.events_received()] == [Reply, Closed]


@pytest.mark.parametrize("qop", ["auth-int", "auth-conf"])
def test_an_unprotected_answer_on_a_protected_connection_is_refused(qop):
    conn, server = connect(), serve(qop)
    conn.call("allocate", {})
    exchange(conn, server)
    with pytest.raises(RemoteProtocolError, match="unprotected answer"):
        conn.receive_data(answer(0))
    assert conn.events_received() == [Closed((0,))]


def test_a_server_that_hangs_up_leaves_the_calls_lost():
    conn, server = connect(), serve()
    call = conn.call("allocate", {})
    exchange(conn, server)
    conn.receive_data(b"")
    assert conn.events_received() == [Closed((call,))]
    conn.receive_data(b"")
    assert conn.events_received() == []


def test_a_connection_cut_in_the_middle_of_an_answer_says_so():
    conn = connect(Simple("alice"))
    call = conn.call("allocate", {})
    conn.receive_data(answer(call)[:-1])
    with pytest.raises(RemoteProtocolError, match="middle of an answer"):
        conn.receive_data(b"")
    assert conn.events_received() == [Closed((call,))]


def test_what_cannot_be_sent_is_our_mistake_and_leaves_the_connection_as_it_was():
    conn = connect(Simple("alice"))
    with pytest.raises(LocalProtocolError, match="no method 'fly'"):
        conn.call("fly", {})
    with pytest.raises(LocalProtocolError, match="no field 'wings'"):
        conn.call("allocate", {"wings": 2})
    assert conn.calls_open == ()
    assert conn.call("allocate", {}) == 0
    with pytest.raises(LocalProtocolError, match="client id of 3 bytes"):
        RpcConnection(APPLICATION_MASTER, Simple("x"), b"abc")


@given(st.binary(max_size=80), st.sampled_from(["simple", *PROTECTIONS]))
def test_random_bytes_at_any_stage_raise_nothing_but_protocol_errors(noise, stage):
    conn = connect(Simple("x")) if stage == "simple" else connect()
    fresh = connect()
    conn.call("allocate", {})
    if stage != "simple":
        exchange(conn, serve(stage))
    framed = len(noise).to_bytes(4, "big") + noise
    for target, data in ((conn, framed), (conn, noise), (fresh, framed), (connect(), noise)):
        try:
            target.receive_data(data)
        except ProtocolError:
            assert target.state == "closed"


@given(st.data())
def test_one_changed_byte_in_a_protected_conversation_is_never_taken_for_an_answer(data):
    conn, server = connect(), serve(data.draw(st.sampled_from(["auth-int", "auth-conf"])))
    call = conn.call("allocate", {})
    exchange(conn, server)
    server.reply(call, {"response_id": 1})
    wire = bytearray(server.data_to_send())
    at = data.draw(st.integers(0, len(wire) - 1))
    wire[at] ^= data.draw(st.integers(1, 255))
    try:
        conn.receive_data(bytes(wire))
    except ProtocolError:
        pass
    for event in conn.events_received():
        assert not isinstance(event, Reply) or event.message == {"response_id": 1}


def test_the_user_of_a_token_is_its_identifier_in_base64():
    assert base64.b64decode(user_of(TOKEN)) == TOKEN.identifier
