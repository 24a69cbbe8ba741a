import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.agent.frames import FrameError, Unpacker, pack

messages = st.lists(
    st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.text())),
    max_size=5,
)


def feed(wire: bytes, step: int) -> list[dict[str, object]]:
    unpacker = Unpacker()
    found = []
    for start in range(0, len(wire), step):
        found += unpacker.feed(wire[start : start + step])
    return found


@given(messages)
def test_bytes_that_trickle_in_give_the_same_messages(sent):
    wire = b"".join(map(pack, sent))
    assert feed(wire, 1) == feed(wire, len(wire) or 1) == sent


@pytest.mark.parametrize(
    "wire", [b"\xff\xff\xff\xff", b"\0\0\0\2{x", b"\0\0\0\2[]", b"\0\0\0\1\xff", b"GET / HTTP/1.1"]
)
def test_other_protocols_are_refused(wire):
    with pytest.raises(FrameError):
        Unpacker().feed(wire)
