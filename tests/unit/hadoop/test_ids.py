import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.hadoop import ids
from dromon.hadoop.faults import ProtocolError
from dromon.hadoop.messages.records import CONTAINER_ID
from dromon.hadoop.protobuf import decode, encode


@pytest.mark.parametrize(
    "text",  # all of them printed by Hadoop
    [
        "container_e03_1700000000000_0007_01_000017",
        "container_1700000000000_0007_01_000017",
        "container_1700000000000_123456_123_12345678",
    ],
)
def test_container_ids_come_back_as_hadoop_writes_them(text):
    message = ids.parse_container(text)
    assert ids.container(message) == text
    assert ids.container(decode(CONTAINER_ID, encode(CONTAINER_ID, message))) == text


def test_the_epoch_of_a_container_is_in_its_number():
    assert ids.parse_container("container_e03_17_0007_01_000017")["id"] == 3 << 40 | 17


def test_the_attempt_of_a_container_is_in_its_id():
    message = ids.parse_container("container_e03_1700000000000_0007_02_000001")
    assert ids.attempt(message["app_attempt_id"]) == "appattempt_1700000000000_0007_000002"
    of = message["app_attempt_id"]["application_id"]
    assert ids.application(of) == "application_1700000000000_0007"
    assert ids.parse_application("application_1700000000000_0007") == of


def test_a_node_is_host_and_port():
    assert ids.node({"host": "n1", "port": 45454}) == "n1:45454"


@given(
    st.text(max_size=40)
    | st.from_regex(r"container_(e\d*_)?\d*_\d*_\d*_\d*", fullmatch=True)
    | st.from_regex(r"application_\d*_\d*", fullmatch=True)
)
def test_other_text_is_no_id_and_no_traceback(text):
    for parse in (ids.parse_container, ids.parse_application):
        try:
            parse(text)
        except ProtocolError:
            pass
