"""What was used, and for how long that is known."""

from dromon.engines.local import usage


def test_what_budgets_or_a_half_life_still_count_is_never_forgotten():
    assert usage.counts(None) == usage.MONTH < usage.kept(None) == usage.YEAR
    half_life = 60 * 86400.0
    assert usage.counts(half_life) == 600 * 86400.0 == usage.kept(half_life)
