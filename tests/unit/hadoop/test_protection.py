import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.hadoop.faults import RemoteProtocolError
from dromon.hadoop.protection import CIPHERS, Layer, Rc4, layer

H_A1 = bytes(range(16))


def pair(qop: str, cipher: str) -> tuple[Layer, Layer]:
    client = layer(H_A1, qop, cipher, server=False, limit=1000)
    server = layer(H_A1, qop, cipher, server=True, limit=1000)
    assert client is not None
    assert server is not None
    return client, server


protections = pytest.mark.parametrize(
    ("qop", "cipher"), [("auth-int", ""), *(("auth-conf", cipher) for cipher in CIPHERS)]
)


@pytest.mark.parametrize(
    ("key", "plain", "sealed"),
    [
        (b"Key", b"Plaintext", "bbf316e8d940af0ad3"),
        (b"Wiki", b"pedia", "1021bf0420"),
        (b"Secret", b"Attack at dawn", "45a01f645fc35b383552544b9bf5"),
    ],
)
def test_rc4_gives_the_bytes_everybody_gets(key, plain, sealed):
    assert Rc4(key).apply(plain) == bytes.fromhex(sealed)


@protections
@given(messages=st.lists(st.binary(max_size=100), max_size=5))
def test_both_directions_carry_messages_on_their_own(qop, cipher, messages):
    client, server = pair(qop, cipher)
    for message in messages:
        assert server.unwrap(client.wrap(message)) == message
        assert client.unwrap(server.wrap(message + b"!")) == message + b"!"


@protections
def test_privacy_hides_and_integrity_shows_the_message(qop, cipher):
    client, _ = pair(qop, cipher)
    assert (b"a secret" in client.wrap(b"a secret")) == (qop == "auth-int")


@protections
@given(data=st.data())
def test_a_changed_byte_is_noticed_wherever_it_is(qop, cipher, data):
    client, server = pair(qop, cipher)
    wrapped = bytearray(client.wrap(b"message"))
    at = data.draw(st.integers(0, len(wrapped) - 1))
    wrapped[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RemoteProtocolError):
        server.unwrap(bytes(wrapped))


@protections
def test_a_message_that_comes_twice_or_out_of_turn_is_refused(qop, cipher):
    client, server = pair(qop, cipher)
    first, second = client.wrap(b"1"), client.wrap(b"2")
    with pytest.raises(RemoteProtocolError, match="message 1 of type 1 where number 0 was due"):
        server.unwrap(second)
    assert server.unwrap(first) == b"1"
    with pytest.raises(RemoteProtocolError, match="number 1 was due"):
        server.unwrap(first)


@protections
@given(noise=st.binary(max_size=60))
def test_noise_is_refused(qop, cipher, noise):
    with pytest.raises(RemoteProtocolError):
        pair(qop, cipher)[1].unwrap(noise)


def test_plain_authentication_wraps_nothing():
    assert layer(H_A1, "auth", "", server=False, limit=1000) is None
