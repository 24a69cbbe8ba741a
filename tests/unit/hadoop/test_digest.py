import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.hadoop.digest import (
    DigestClient,
    DigestServer,
    Session,
    directives,
    password_of,
    user_of,
)  # fmt: skip
from dromon.hadoop.faults import ProtocolError, RemoteProtocolError, Unauthenticated
from dromon.hadoop.token import Token

TOKEN = Token(
    bytes.fromhex("0a0d0a0908071080d095ffbc3110011001"), bytes(range(20)), "YARN_AM_RM_TOKEN"
)


def client(**more: object) -> DigestClient:
    return DigestClient(user_of(TOKEN), password_of(TOKEN), "/default", "B" * 24, **more)


def server(password: str = password_of(TOKEN), **more: object) -> DigestServer:
    known = {user_of(TOKEN): password}
    return DigestServer(known.get, "A" * 40, **more)


def test_the_example_of_rfc_2831_comes_out():
    session = Session(
        "chris", "elwood.innosoft.com", "secret",
        "OA6MG9tEQGm2hh", "OA6MHXh6VqTrRk", "imap/elwood.innosoft.com",
    )  # fmt: skip
    assert session.response() == "d388dad90d4bbd760a152321f2143af7"
    assert session.rspauth() == "ea40f60335c427b5527b84dbabcdfffd"


def test_a_client_answers_the_challenge_of_rfc_2831_as_the_rfc_does():
    ours = DigestClient("chris", "secret", "imap/elwood.innosoft.com", "OA6MHXh6VqTrRk")
    answer = ours.respond(
        b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",'
        b"algorithm=md5-sess,charset=utf-8"
    )
    assert directives(answer or b"") == {
        "charset": ["utf-8"],
        "username": ["chris"],
        "realm": ["elwood.innosoft.com"],
        "nonce": ["OA6MG9tEQGm2hh"],
        "nc": ["00000001"],
        "cnonce": ["OA6MHXh6VqTrRk"],
        "digest-uri": ["imap/elwood.innosoft.com"],
        "maxbuf": ["65536"],
        "response": ["d388dad90d4bbd760a152321f2143af7"],
        "qop": ["auth"],
    }
    assert ours.respond(b"rspauth=ea40f60335c427b5527b84dbabcdfffd") is None
    assert ours.complete


def test_a_token_proves_itself_as_it_does_to_hadoop():
    session = Session(user_of(TOKEN), "default", password_of(TOKEN), "A" * 40, "B" * 24, "/default")
    assert session.response() == "493ea68df666f35aaa6dfbb667319c35"
    assert session.rspauth() == "4a19d03c6be4a70bd40916fce24f6098"


@pytest.mark.parametrize("qop", ["auth", "auth-int", "auth-conf"])
def test_client_and_server_agree_and_then_understand_each_other(qop):
    ours, theirs = client(), server(qops=[qop])
    answer = ours.respond(theirs.challenge())
    assert ours.respond(theirs.accept(answer or b"")) is None
    assert (ours.complete, ours.qop, theirs.user) == (True, qop, user_of(TOKEN))
    if qop != "auth":
        assert ours.layer is not None
        assert theirs.layer is not None
        assert theirs.layer.unwrap(ours.layer.wrap(b"hello")) == b"hello"
        assert ours.layer.unwrap(theirs.layer.wrap(b"you")) == b"you"


def test_the_strongest_protection_of_both_is_chosen():
    ours = client()
    ours.respond(server(qops=["auth", "auth-conf", "auth-int"]).challenge())
    assert (ours.qop, ours.cipher) == ("auth-conf", "rc4")
    modest = client(qops=("auth-int", "auth"))
    modest.respond(server(qops=["auth", "auth-conf", "auth-int"]).challenge())
    assert modest.qop == "auth-int"


def test_privacy_without_a_cipher_of_ours_gives_way_where_the_server_allows_less():
    ours = client()
    ours.respond(server(qops=["auth-conf", "auth-int"], ciphers=["3des", "des"]).challenge())
    assert (ours.qop, ours.cipher) == ("auth-int", "")


def test_privacy_without_a_cipher_of_ours_is_refused_in_words():
    with pytest.raises(Unauthenticated, match="encrypts only with 3des, des; Dromon has rc4"):
        client().respond(server(qops=["auth-conf"], ciphers=["3des", "des"]).challenge())


def test_a_protection_that_was_not_allowed_is_refused_in_words():
    with pytest.raises(Unauthenticated, match="by auth; allowed here: auth-conf"):
        client(qops=("auth-conf",)).respond(server().challenge())


def test_the_server_refuses_a_wrong_password_and_an_unknown_user():
    for theirs in (server("wrong"), DigestServer(lambda _: None, "A" * 40)):
        answer = client().respond(theirs.challenge())
        with pytest.raises(Unauthenticated):
            theirs.accept(answer or b"")


def test_a_server_that_does_not_know_the_password_is_unmasked():
    ours = client()
    ours.respond(server().challenge())
    with pytest.raises(Unauthenticated, match="could not prove"):
        ours.respond(b"rspauth=" + b"0" * 32)
    assert not ours.complete


def test_an_exchange_that_is_complete_takes_no_more():
    ours, theirs = client(), server()
    ours.respond(theirs.accept(ours.respond(theirs.challenge()) or b""))
    with pytest.raises(RemoteProtocolError, match="complete"):
        ours.respond(theirs.challenge())


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"nonsense",
        b'nonce="x"',
        b'nonce="x",algorithm=md5',
        b'nonce="x",nonce="y",algorithm=md5-sess',
        b'nonce="unfinished,algorithm=md5-sess',
        b'nonce="x",algorithm=md5-sess,maxbuf=16',
        b'nonce="x",algorithm=md5-sess,maxbuf=many',
    ],
)
def test_a_challenge_that_makes_no_sense_is_the_servers_fault(challenge):
    with pytest.raises(RemoteProtocolError):
        client().respond(challenge)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'realm="a\\"b, c",qop="auth,auth-int"', {"realm": ['a"b, c'], "qop": ["auth,auth-int"]}),
        (b" , a = b ,, C=d , ", {"a": ["b"], "c": ["d"]}),
        (b'realm="x",realm="y"', {"realm": ["x", "y"]}),
        (b'empty="",also=', {"empty": [""], "also": [""]}),
        ('u="grün"'.encode(), {"u": ["grün"]}),
        (b"", {}),
    ],
)
def test_directives_are_read_as_the_rfc_writes_them(text, found):
    assert directives(text) == found


@given(st.binary(max_size=100) | st.text(alphabet='a=",\\ \n').map(str.encode))
def test_noise_is_directives_or_a_protocol_error(noise):
    for side in (directives, client().respond, server().accept):
        try:
            side(noise)
        except ProtocolError:
            pass


@given(st.text(), st.text(), st.text(alphabet='ab"\\,=', max_size=10))
def test_any_user_and_password_can_log_in(user, password, realm):
    user, password = (part.encode("utf-8", "replace").decode() for part in (user, password))
    theirs = DigestServer({user: password}.get, "nonce", realm=realm)
    ours = DigestClient(user, password, "p/s", "cnonce")
    ours.respond(theirs.accept(ours.respond(theirs.challenge()) or b""))
    assert ours.complete


def test_a_token_does_not_show_its_password():
    assert "password" not in repr(TOKEN)
    assert "\\x13" not in repr(TOKEN)
