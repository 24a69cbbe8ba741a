import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.hadoop.faults import RemoteProtocolError
from dromon.hadoop.framing import Body, FrameBuffer, pack, preamble
from dromon.hadoop.messages.rpc import RPC_SASL


def feed(wire: bytes, step: int) -> list[bytes]:
    buffer = FrameBuffer()
    found = []
    for start in range(0, len(wire), step):
        found += buffer.feed(wire[start : start + step])
    return found


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_bytes_that_trickle_in_give_the_same_frames(bodies):
    wire = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    assert feed(wire, 1) == feed(wire, len(wire) or 1) == bodies


def test_the_first_seven_bytes_say_whether_sasl_follows():
    assert preamble(sasl=False) == bytes.fromhex("68727063 09 00 00")
    assert preamble(sasl=True) == bytes.fromhex("68727063 09 00 df")


def test_messages_stand_in_a_frame_one_after_the_other():
    frame = pack((RPC_SASL, {"state": 1}), (RPC_SASL, {"state": 0}))
    assert frame == bytes.fromhex("00000006 021001 021000")
    body = Body(frame[4:])
    assert [body.take(RPC_SASL), body.take(RPC_SASL)] == [{"state": 1}, {"state": 0}]
    body.finish()


def test_a_frame_with_too_little_or_too_much_is_refused():
    body = Body(bytes.fromhex("021001 00"))
    body.take(RPC_SASL)
    with pytest.raises(RemoteProtocolError, match="1 bytes too many"):
        body.finish()
    with pytest.raises(RemoteProtocolError, match="of 9 bytes, but 2 came"):
        Body(bytes.fromhex("091001")).take(RPC_SASL)


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (b"\xff\xff\xff\xff", "before Hadoop 2"),
        (b"HTTP/1.1 400 Bad Request", "web server"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
    ],
)
def test_other_servers_are_named(wire, words):
    with pytest.raises(RemoteProtocolError, match=words):
        list(FrameBuffer().feed(wire))


def test_frames_before_a_broken_one_are_still_given():
    buffer = FrameBuffer()
    frames = buffer.feed(b"\0\0\0\1x" + b"\xff" * 8)
    assert next(frames) == b"x"
    with pytest.raises(RemoteProtocolError):
        next(frames)
