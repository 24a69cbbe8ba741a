"""Whole conversations with real Hadoop servers, replayed: vectors/transcripts.txt.

The client there asked two things at once of a server whose ``allocate`` adds one to the response id
and whose ``registerApplicationMaster`` throws. Its nonces and ids are the ones below.
"""

from pathlib import Path

import pytest

from dromon.hadoop.connection import RpcConnection
from dromon.hadoop.events import Event, Fatal, Reply, RpcError
from dromon.hadoop.messages.master import APPLICATION_MASTER
from dromon.hadoop.sasl import Auth, DigestMd5, Simple
from dromon.hadoop.token import Token

LINES = (Path(__file__).parent / "vectors" / "transcripts.txt").read_text().splitlines()
SAID = {
    tuple(line.split(" ")[:3]): bytes.fromhex(line.split(" ")[3])
    for line in LINES
    if not line.startswith("#")
}
CASES = sorted({key[:2] for key in SAID})
TOKEN = Token(
    bytes.fromhex("0a0d0a0908071080d095ffbc3110011001"), bytes(range(20)), "YARN_AM_RM_TOKEN"
)


def auth(protection: str) -> Auth:
    if protection == "simple":
        return Simple("alice")
    token = Token(TOKEN.identifier, b"wrong", "") if protection == "refused" else TOKEN
    return DigestMd5(token, "B" * 24)


def replay(release: str, protection: str, step: int) -> tuple[list[Event], bytes]:
    conn = RpcConnection(APPLICATION_MASTER, auth(protection), bytes(range(16)))
    conn.call("allocate", {"response_id": 41, "progress": 0.25})
    conn.call("registerApplicationMaster", {"host": "n1"})
    wire = SAID[release, protection, "server"]
    events, sent = [], conn.data_to_send()
    for start in range(0, len(wire), step):
        conn.receive_data(wire[start : start + step])
        events += conn.events_received()
        sent += conn.data_to_send()
    return events, sent


@pytest.mark.parametrize(("release", "protection"), CASES)
def test_a_real_server_is_answered_and_understood_byte_by_byte_as_well(release, protection):
    wire = SAID[release, protection, "server"]
    events, sent = replay(release, protection, 1)
    assert sent == SAID[release, protection, "client"]
    for step in (7, len(wire)):
        assert replay(release, protection, step)[0] == events
    if protection == "refused":
        (fatal,) = events
        assert isinstance(fatal, Fatal)
        assert fatal.exception == "javax.security.sasl.SaslException"
        assert fatal.detail == 15
        assert fatal.lost == (0, 1)
        return
    reply, error = sorted(events, key=lambda event: event.call_id)
    assert isinstance(reply, Reply)
    assert reply.message["response_id"] == 42
    (status,) = reply.message["completed_container_statuses"]
    assert status["exit_status"] == -102
    who = "alice/SIMPLE" if protection == "simple" else "appattempt_1700000000000_0007_000001/TOKEN"
    assert status["diagnostics"] == f"user {who} asks 0 url 0 progress 0.25"
    assert isinstance(error, RpcError)
    assert (error.exception, error.text) == ("java.io.IOException", "no such thing for n1")
    assert error.trace.startswith("Srv$Impl.registerApplicationMaster(")
    assert error.detail == 1


def test_the_transcripts_hold_every_protection():
    assert {protection for _, protection in CASES} == {
        "authentication", "integrity", "privacy", "simple", "refused",
    }  # fmt: skip


def test_privacy_hides_what_is_asked():
    said = SAID["3.5.0", "privacy", "client"]
    assert b"registerApplicationMaster" not in said
    assert b"registerApplicationMaster" in SAID["3.5.0", "integrity", "client"]
