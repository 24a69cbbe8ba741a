"""Sizes and durations as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dromon.units import counted, format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0), (512, 512), ("512", 512), ("16GiB", 16 << 30), ("16 gib", 16 << 30),
        ("1.5k", 1536), ("2M", 2 << 20), ("1GB", 10**9), ("1 TB", 10**12), ("3Ti", 3 << 40),
        ("10b", 10),
    ],
)  # fmt: skip
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1 XB", "1..5k", "1GiB2", True, "inf", "1e3"])
def test_what_is_no_size_is_told_with_an_example(text):
    with pytest.raises(ValueError, match=r"such as 16GiB|512MiB or 16GiB"):
        parse_size(text)


def test_a_size_is_not_negative():
    with pytest.raises(ValueError, match="negative"):
        parse_size(-1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (0, 0), (1.5, 1.5), ("90s", 90), ("2h", 7200), ("1h30m", 5400), ("1h 30m", 5400),
        ("250ms", 0.25), ("1.5d", 129600), ("1w", 604800), (" 10M ", 600),
    ],
)  # fmt: skip
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "90", "2 hours", "h", "-1s", "1h30", "1x", True, "s1"])
def test_what_is_no_duration_is_told_with_an_example(text):
    with pytest.raises(ValueError, match=r"90s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"),
        (200 << 10, "200 KiB"), (16 << 30, "16.0 GiB"), (5 << 40, "5.0 TiB"),
    ],
)  # fmt: skip
def test_sizes_are_told_in_three_figures(size, text):
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"), (0, "0.0s"), (9.94, "9.9s"), (9.96, "10s"), (42, "42s"), (59.7, "1m00s"),
        (192, "3m12s"), (3599.6, "1h00m"), (7500, "2h05m"), (86400 * 4 + 3600 * 3, "4d3h"),
    ],
)  # fmt: skip
def test_durations_are_told_in_two_units(seconds, text):
    assert format_duration(seconds) == text


@given(st.integers(0, 2**60))
def test_a_number_of_bytes_is_that_many(size):
    assert parse_size(size) == parse_size(str(size) if size < 2**53 else size) == size


@given(st.text(max_size=20))
def test_any_text_is_a_value_or_a_sentence(text):
    for parse in (parse_size, parse_duration):
        try:
            value, said = parse(text), ""
        except ValueError as error:
            value, said = -1, str(error)
        assert value >= 0 or "write for example" in said


def test_one_is_one_and_all_else_are_many():
    assert [counted(n, "GPU") for n in (0, 0.5, 1, 2)] == ["0 GPUs", "0.5 GPUs", "1 GPU", "2 GPUs"]
