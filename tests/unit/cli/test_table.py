"""Tables: aligned, and fitted to the width there is."""

from dromon.cli.console import Paint
from dromon.cli.table import Column, render

PLAIN = Paint(False)
COLUMNS = [Column("#", right=True), Column("JOB", least=5), Column("NOTE", least=6, optional=True)]
ROWS = [["7", "alpha", "a long reason indeed"], ["41", "a-longer-name", "short"]]


def test_columns_are_aligned_and_no_line_ends_in_spaces():
    assert render(COLUMNS, ROWS, None, PLAIN).splitlines() == [
        " #  JOB            NOTE",
        " 7  alpha          a long reason indeed",
        "41  a-longer-name  short",
    ]


def test_the_last_column_is_cut_first():
    lines = render(COLUMNS, ROWS, 30, PLAIN).splitlines()
    assert lines[1] == " 7  alpha          a long rea…"
    assert lines[2] == "41  a-longer-name  short"
    assert max(map(len, lines)) == 30


def test_then_the_others_that_may_shrink():
    lines = render(COLUMNS, ROWS, 20, PLAIN).splitlines()
    assert lines[2] == "41  a-longe…  short"
    assert max(map(len, lines)) <= 20


def test_an_optional_column_goes_when_nothing_else_helps():
    lines = render(COLUMNS, ROWS, 10, PLAIN).splitlines()
    assert lines[0] == " #  JOB"
    assert lines[2] == "41  a-lo…"


def test_colours_do_not_disturb_the_alignment():
    text = render([Column("A"), Column("B")], [[("x", "red"), "y"]], None, Paint(True))
    assert text.splitlines()[1] == "\x1b[31mx\x1b[0m  y"


def test_a_table_without_rows_is_its_titles():
    assert render([Column("A")], [], 80, PLAIN) == "A\n"
