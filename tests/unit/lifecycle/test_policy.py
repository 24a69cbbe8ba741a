"""What an exit that nobody in the gang asked for means."""

import pytest

from dromon.lifecycle.policy import kind_of
from dromon.lifecycle.verdict import Exit


@pytest.mark.parametrize(
    ("exit", "kind"),
    [
        (Exit(code=0), ""),
        (Exit(code=3, cause="user_error"), "member_failed"),
        (Exit(signal=9, cause="out_of_memory"), "member_failed"),
        (Exit(cause="environment"), "member_failed"),
        # Told to stop, though not by the gang: its place is being taken away.
        (Exit(code=0, stopped=True), "member_evicted"),
        (Exit(code=3, cause="evicted", stopped=True), "member_evicted"),
        (Exit(signal=15, cause="evicted", stopped=True), "member_evicted"),
        (Exit(signal=15, cause="preempted", stopped=True), "member_evicted"),
        (Exit(code=1, cause="stopped", stopped=True), "member_evicted"),
        # It had ended itself, because it heard from nobody.
        (Exit(code=0, cause="lost", stopped=True), "member_lost"),
        (Exit(signal=9, cause="lost", stopped=True), "member_lost"),
    ],
)
def test_exit_is_a_success_a_failure_or_a_loss(exit, kind):
    assert kind_of(exit) == kind
