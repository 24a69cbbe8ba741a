"""Plots as SVG text: an area or lines over an axis, and bars. No data is computed here.

Plain text in, plain text out, with nothing fetched by whoever looks at it; light and dark follow
the reader's own choice.
"""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 720, 180
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 30, 28
LONGEST = 16  # characters of a bar's name
COLOURS = ("#2f6fab", "#c8553d", "#4f9d69", "#8e6bbf", "#b8860b", "#5f7d8c", "#a23b72", "#3b8ea5")
STYLE = """
svg { font: 12px system-ui, sans-serif; background: #fff; color: #222; }
svg text { fill: currentColor; } svg .axis { stroke: currentColor; stroke-width: 1; opacity: .5; }
svg .grid { stroke: currentColor; opacity: .12; } svg .title { font-weight: 600; font-size: 13px; }
@media (prefers-color-scheme: dark) { svg { background: #16191d; color: #ddd; } }
"""

Points = Sequence[tuple[float, float]]


def lines(
    title: str,
    series: Mapping[str, Points],
    *,
    x_labels: Sequence[str],
    y_top: float,
    y_labels: Sequence[str],
    filled: bool = False,
) -> str:
    """One line for each of `series`; x runs from 0 to 1, y from 0 to `y_top`. The labels stand at
    equal distances along the axes, the first at the origin."""
    parts = [_frame(title, x_labels, y_labels)]
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{_x(x):.1f},{_y(y, y_top):.1f}" for x, y in points)
        if filled and points:
            first, last = _x(points[0][0]), _x(points[-1][0])
            base = HEIGHT - BOTTOM
            ends = f"{last:.1f},{base} {first:.1f},{base}"
            parts.append(f'<polygon points="{path} {ends}" fill="{colour}" opacity=".35"/>')
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6">'
            f"<title>{escape(name)}</title></polyline>"
        )
        if len(series) > 1:
            at = LEFT + 8 + 130 * number
            parts.append(
                f'<rect x="{at}" y="{TOP - 10}" width="10" height="4" fill="{colour}"/>'
                f'<text x="{at + 14}" y="{TOP - 4}" font-size="11">{escape(name)}</text>'
            )
    return _group(parts, HEIGHT)


def bars(title: str, values: Sequence[tuple[str, float, str]]) -> str:
    """(name, value, how it is said): one bar below the other, the longest over the whole width."""
    most = max((value for _, value, _ in values), default=0.0) or 1.0
    parts = [f'<text class="title" x="8" y="18">{escape(title)}</text>']
    wide = WIDTH - LEFT - 2 * RIGHT - 176
    for row, (name, value, said) in enumerate(values):
        y, long = TOP + 22 * row, wide * value / most
        colour = COLOURS[row % len(COLOURS)]
        parts.append(
            f'<text x="{LEFT + 56}" y="{y + 13}" text-anchor="end">{_short(name)}</text>'
            f'<rect x="{LEFT + 64}" y="{y + 2}" width="{long:.1f}" height="14" fill="{colour}"/>'
            f'<text x="{LEFT + 70 + long:.1f}" y="{y + 13}">{escape(said)}</text>'
        )
    return _group(parts, TOP + 22 * len(values) + 10)


def stacked(plots: Sequence[str]) -> str:
    """One below the other, as a file of its own."""
    y, parts = 0.0, []
    for plot in plots:
        parts.append(f'<g transform="translate(0,{y:g})">{plot}</g>')
        y += _height(plot) + 12
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:g}" '
        f'width="{WIDTH}" height="{y:g}"><style>{STYLE}</style>{"".join(parts)}</svg>\n'
    )


def page(title: str, body: str, plots: Sequence[str]) -> str:
    """A page of HTML with nothing outside of it. `body` is HTML already."""
    return (
        "<!doctype html>\n<html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_PAGE}</style>"
        f"<h1>{escape(title)}</h1>\n{stacked(plots)}\n{body}</html>\n"
    )


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """As HTML; all but the first column stand to the right."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n" for row in rows
    )
    return f"<table><tr>{head}</tr>\n{body}</table>\n"


_PAGE = """
body { font: 15px system-ui, sans-serif; max-width: 760px; margin: 2em auto; padding: 0 1em;
  background: #fff; color: #222; }
h1 { font-size: 1.3em; } table { border-collapse: collapse; margin: 1em 0; }
td, th { padding: .25em .9em .25em 0; text-align: right; font-variant-numeric: tabular-nums; }
td:first-child, th:first-child { text-align: left; } svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { body { background: #16191d; color: #ddd; } }
"""


def _x(part: float) -> float:
    return LEFT + part * (WIDTH - LEFT - RIGHT)


def _y(value: float, top: float) -> float:
    part = min(1.0, value / top) if top else 0.0
    return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)


def _frame(title: str, x_labels: Sequence[str], y_labels: Sequence[str]) -> str:
    parts = [f'<text class="title" x="8" y="14">{escape(title)}</text>']
    for number, label in enumerate(y_labels):
        y = _y(number, max(1, len(y_labels) - 1))
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>'
        )
    for number, label in enumerate(x_labels):
        x = _x(number / max(1, len(x_labels) - 1))
        anchor = "start" if number == 0 else "end" if number == len(x_labels) - 1 else "middle"
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{escape(label)}</text>'
        )
    base = HEIGHT - BOTTOM
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>')
    return "".join(parts)


def _short(name: str) -> str:
    return escape(name if len(name) <= LONGEST else name[: LONGEST - 1] + "…")


def _group(parts: Sequence[str], height: float) -> str:
    return f'<g data-height="{height:g}">{"".join(parts)}</g>'


def _height(group: str) -> float:
    return float(group.partition('data-height="')[2].partition('"')[0])
