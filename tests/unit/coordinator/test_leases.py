"""Who is missed, and when; and who was away itself."""

from dromon.coordinator.leases import MARGIN, Leases

ALLOWED = 60 + 30 + MARGIN
BOTH = ("worker-0", "worker-1")


def looks(leases, seconds, speaks=()):
    """Look every second; what was over at the end."""
    found = []
    for now in range(1000, 1001 + seconds):
        for member in speaks:
            leases.hear(member, now)
        found = leases.over(BOTH, now)
    return found


def test_a_member_is_missed_when_lease_and_grace_are_over_and_not_before():
    leases = Leases(60, 30)
    assert looks(leases, int(ALLOWED), speaks=["worker-0"]) == []
    leases = Leases(60, 30)
    assert looks(leases, int(ALLOWED) + 1, speaks=["worker-0"]) == ["worker-1"]
    assert leases.silence("worker-1", 1000 + ALLOWED + 1) == ALLOWED + 1


def test_whoever_was_away_itself_misses_nobody():
    leases = Leases(60, 30)
    looks(leases, 5)
    assert leases.over(BOTH, 1005 + 10 * ALLOWED) == []


def test_a_clock_that_was_put_back_starts_anew():
    leases = Leases(60, 30)
    looks(leases, int(ALLOWED))
    assert leases.over(BOTH, 500) == []
    assert leases.silence("worker-1", 501) == 1


def test_one_that_is_over_is_forgotten():
    leases = Leases(60, 30)
    looks(leases, 50)
    leases.over(["worker-0"], 1051)
    assert leases.over(BOTH, 1052) == []
    assert leases.silence("worker-1", 1053) == 1
