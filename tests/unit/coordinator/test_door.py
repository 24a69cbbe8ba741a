"""Who may speak for a member."""

from dromon.agent.protocol import is_proof, proof
from dromon.coordinator.door import Door

KEY = b"secret"


def door() -> Door:
    return Door("N1", {"job-a": KEY}.get, epoch=3)


def hello(**changes: object) -> dict[str, object]:
    mac = proof(KEY, "agent", ("N1", "N2"))
    return {"op": "hello", "job": "job-a", "member": "worker-0", "run": 2, "nonce": "N2",
            "mac": mac, **changes}  # fmt: skip


def test_an_agent_with_the_key_is_let_in_and_can_check_the_coordinator():
    admitted = door().admit(hello())
    assert admitted is not None
    assert (admitted.job, admitted.member, admitted.run) == ("job-a", "worker-0", 2)
    assert is_proof(admitted.welcome["mac"], KEY, "coordinator", ("N1", "N2"))


def test_a_wrong_key_a_replayed_nonce_and_nonsense_are_not_let_in():
    assert door().admit(hello(mac=proof(b"guess", "agent", ("N1", "N2")))) is None
    assert door().admit(hello(mac=proof(KEY, "agent", ("OLD", "N2")))) is None
    assert door().admit(hello(mac=proof(KEY, "coordinator", ("N1", "N2")))) is None
    assert door().admit(hello(job="job-b")) is None
    assert door().admit(hello(run="many")) is None
    assert door().admit({"op": "hello"}) is None
    assert door().admit(hello(op="ready")) is None
