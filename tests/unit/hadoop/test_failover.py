import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.hadoop.failover import GiveUp, Policy, Retry, Trouble, trouble_of

POLICY = Policy(base=1.0, cap=8.0, patience=100.0)


def walk(
    trouble: Trouble, servers: int, steps: int, chance: float = 1.0
) -> list[tuple[float, int]]:
    server, found = 0, []
    for failures in range(1, steps + 1):
        decision = POLICY.after(
            trouble, failures=failures, server=server, servers=servers, elapsed=0, chance=chance
        )
        assert isinstance(decision, Retry)
        server = decision.server
        found.append((decision.wait, server))
    return found


def test_the_other_server_is_asked_at_once_and_the_pair_after_a_growing_wait():
    assert walk(Trouble.STANDBY, 2, 8) == [
        (0, 1), (1, 0), (0, 1), (2, 0), (0, 1), (4, 0), (0, 1), (8, 0),
    ]  # fmt: skip
    assert walk(Trouble.UNREACHED, 2, 2) == [(0, 1), (1, 0)]
    assert walk(Trouble.UNREACHED, 3, 4) == [(0, 1), (0, 2), (1, 0), (0, 1)]


def test_a_lone_server_is_asked_again_after_a_growing_wait_up_to_the_cap():
    assert walk(Trouble.UNREACHED, 1, 6) == [(1, 0), (2, 0), (4, 0), (8, 0), (8, 0), (8, 0)]


def test_a_busy_server_is_asked_again_and_not_its_standby():
    assert walk(Trouble.BUSY, 2, 3) == [(1, 0), (2, 0), (4, 0)]


def test_chance_spreads_the_waits_over_half_of_their_length():
    assert walk(Trouble.BUSY, 1, 3, chance=0.0) == [(0.5, 0), (1, 0), (2, 0)]


def test_a_refusal_is_final():
    decision = POLICY.after(Trouble.REFUSED, failures=1, server=0, servers=2, elapsed=0, chance=0)
    assert isinstance(decision, GiveUp)


@pytest.mark.parametrize("repeatable", [True, False])
def test_a_lost_call_is_repeated_only_where_that_does_no_harm(repeatable):
    decision = POLICY.after(
        Trouble.LOST,
        failures=1, server=0, servers=2, elapsed=0, chance=0, repeatable=repeatable,
    )  # fmt: skip
    assert decision == (
        Retry(0, 1)
        if repeatable
        else GiveUp("the connection broke; whether it was done is not known")
    )


def test_patience_ends():
    decision = POLICY.after(
        Trouble.UNREACHED, failures=9, server=0, servers=1, elapsed=99, chance=1
    )
    assert decision == GiveUp("no answer for 99 s")


@given(
    st.sampled_from(Trouble), st.integers(1, 10**6), st.integers(1, 5),
    st.floats(0, 1000), st.floats(0, 1), st.data(),
)  # fmt: skip
def test_every_decision_is_within_its_bounds(trouble, failures, servers, elapsed, chance, data):
    server = data.draw(st.integers(0, servers - 1))
    decision = POLICY.after(
        trouble,
        failures=failures, server=server, servers=servers, elapsed=elapsed, chance=chance,
    )  # fmt: skip
    if isinstance(decision, Retry):
        assert 0 <= decision.wait <= POLICY.cap
        assert 0 <= decision.server < servers
        # Everybody is asked once, however short the patience: a host that is off can eat it all.
        assert elapsed + decision.wait <= POLICY.patience or failures < servers


@pytest.mark.parametrize(
    ("exception", "trouble"),
    [
        ("org.apache.hadoop.ipc.StandbyException", Trouble.STANDBY),
        ("org.apache.hadoop.ipc.ObserverRetryOnActiveException", Trouble.STANDBY),
        ("org.apache.hadoop.ipc.RetriableException", Trouble.BUSY),
        ("org.apache.hadoop.yarn.exceptions.NMNotYetReadyException", Trouble.BUSY),
        ("org.apache.hadoop.hdfs.server.namenode.SafeModeException", Trouble.BUSY),
        ("org.apache.hadoop.security.AccessControlException", Trouble.REFUSED),
        ("", Trouble.REFUSED),
    ],
)
def test_javas_exceptions_have_their_meaning(exception, trouble):
    assert trouble_of(exception) is trouble
