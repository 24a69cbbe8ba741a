"""Plots: well-formed SVG with what was given in it."""

from xml.etree import ElementTree

from dromon.observe import plots


def parsed(*drawn: str) -> ElementTree.Element:
    return ElementTree.fromstring(plots.stacked(drawn))


def test_a_line_goes_through_its_points():
    drawn = plots.lines(
        "use", {"a": [(0, 0), (1, 2)], "b & c": [(0, 1)]},
        x_labels=["then", "now"], y_top=2, y_labels=["0", "1", "2"],
    )  # fmt: skip
    found = parsed(drawn)
    first, _ = found.iter("{http://www.w3.org/2000/svg}polyline")
    (x0, y0), (x1, y1) = (map(float, pair.split(",")) for pair in first.attrib["points"].split())
    assert x0 == plots.LEFT
    assert x1 == plots.WIDTH - plots.RIGHT
    assert y0 == plots.HEIGHT - plots.BOTTOM
    assert y1 == plots.TOP
    assert "b & c" in "".join(found.itertext())


def test_the_longest_bar_is_the_measure_of_the_others():
    found = parsed(plots.bars("hours", [("ann", 4, "4 h"), ("bob", 1, "1 h"), ("eve", 0, "none")]))
    widths = [float(r.attrib["width"]) for r in found.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[1] == widths[0] / 4
    assert widths[2] == 0


def test_plots_are_stacked_without_overlapping():
    a, b = plots.bars("a", [("x", 1, "1")]), plots.bars("b", [])
    places = [g.attrib.get("transform") for g in parsed(a, b)]
    assert places[1:] == ["translate(0,0)", "translate(0,74)"]


def test_a_page_escapes_what_it_shows():
    text = plots.page("<t>", plots.table(("who", "n"), [("<a>", "1")]), [])
    assert "<t>" not in text
    assert "<td>&lt;a&gt;</td>" in text
