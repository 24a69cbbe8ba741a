"""Rows to aligned text, fitted to a width. No colours are chosen here, only put on."""

from __future__ import annotations

from dromon.cli.console import Paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Cell = str | tuple[str, str]  # text, or text and its colour

GAP = "  "


class Column:
    """A title and how the column may give way: to the right edge, by shrinking, by going."""

    def __init__(
        self, title: str, *, right: bool = False, least: int = 0, optional: bool = False
    ) -> None:
        self.title = title
        self.right = right
        self.least = least  # may be cut down to this; 0: never cut
        self.optional = optional  # left out when there is no room at all


def render(
    columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int | None, paint: Paint
) -> str:
    """The table as text, a newline after each row. `width` None: nothing is cut."""
    texts = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in rows]
    widths = [
        max([len(column.title), *(len(row[i]) for row in texts)])
        for i, column in enumerate(columns)
    ]
    shown = fit(columns, widths, width)
    lines = [paint(join([columns[i].title for i in shown], shown, columns, widths), "dim")]
    for row, words in zip(rows, texts, strict=True):
        cut = [clip(words[i], widths[i]) for i in shown]
        colours = ["" if isinstance(row[i], str) else row[i][1] for i in shown]
        lines.append(join(cut, shown, columns, widths, colours, paint))
    return "".join(line + "\n" for line in lines)


def fit(columns: Sequence[Column], widths: list[int], width: int | None) -> list[int]:
    """Which columns stay. Shrinks `widths` in place, the last column first."""
    shown = list(range(len(columns)))
    if width is None:
        return shown
    for i in reversed(range(len(columns))):
        over = total(shown, widths) - width
        if over <= 0:
            return shown
        if columns[i].least:
            widths[i] = max(min(widths[i], columns[i].least), widths[i] - over)
    for i in reversed(range(len(columns))):
        if total(shown, widths) > width and columns[i].optional:
            shown.remove(i)
    return shown


def total(shown: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[i] for i in shown) + len(GAP) * (len(shown) - 1)


def clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def join(
    cells: Sequence[str],
    shown: Sequence[int],
    columns: Sequence[Column],
    widths: Sequence[int],
    colours: Sequence[str] = (),
    paint: Paint | None = None,
) -> str:
    parts = []
    for place, i in enumerate(shown):
        text = cells[place]
        pad = " " * (widths[i] - len(text))
        if paint is not None:
            text = paint(text, colours[place])
        if columns[i].right:
            text = pad + text
        elif place < len(shown) - 1:
            text += pad
        parts.append(text)
    return GAP.join(parts).rstrip(" ")
