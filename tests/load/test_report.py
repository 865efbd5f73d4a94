from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from load.counters import Stop
from load.figures import Held
from load.probe import Depth
from load.report import POINTS_MAX, chart, insert_section, merged, section
from load.verdict import Finding

HELD = [Held("Ob<eying", 1234, 2, 2.5, 0, 0.0, 2.0, 2.5, 0.0, 0.0)]
DEPTHS = [Depth(float(at), {"a<b": 10 * at, "c": 5}) for at in range(10)]
STOPS = [Stop(2.0, 4.0, "FLOW"), Stop(3.0, 5.0, "BLOCKED"), Stop(7.0, 8.0, "FLOW")]


class Texts(HTMLParser):
    """The text of a page, and every address it would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.addresses: list[str | None] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for name, value in attrs if name in ("src", "href")]


def test_verdict_figures_and_depths_are_on_the_page() -> None:
    findings = [Finding("lost", True, "0 of <1>"), Finding("rate", False, "3 wanted 4")]
    page = Texts(section(findings, HELD, {"received": 7.0}, DEPTHS, STOPS, {"stop": 80}, {}))
    for text in ("ok", "FAIL", "lost", "0 of <1>", "Ob<eying", "1,234", "2.5", "received", "7", "stop 80"):
        assert text in page.texts
    assert any("a<b" in text for text in page.texts)
    assert page.addresses == []


def test_a_run_that_goes_on_has_no_verdict() -> None:
    page = section([], HELD, {}, [], [], {}, {})
    assert "Verdict" not in page
    assert "<svg" not in page


def test_the_section_comes_first_in_the_body() -> None:
    page = '<head><script>"<body>"</script></head><body><div id="root"></div></body>'
    assert (
        insert_section(page, "<i/>") == '<head><script>"<body>"</script></head><body><i/><div id="root"></div></body>'
    )


def drawn(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(chart[chart.index("<svg") : chart.index("</svg>") + len("</svg>")])


def test_the_chart_stays_in_its_frame() -> None:
    picture = drawn(chart(DEPTHS, [*STOPS, Stop(-5.0, 99.0, "FLOW")], {"stop": 200}, {"c": 500}))
    _, _, width, height = map(float, picture.attrib["viewBox"].split())
    lines = picture.findall("polyline")
    assert len(lines) == 2
    for line in lines:
        for point in line.attrib["points"].split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width and 0 <= y <= height
    for stripe in picture.findall("rect"):
        assert float(stripe.attrib["x"]) >= 0 and float(stripe.attrib["x"]) + float(stripe.attrib["width"]) <= width


def test_messages_that_may_be_unacked_are_a_shade_above_the_line() -> None:
    depths = [Depth(0.0, {"q": 0, "r": 0}), Depth(10.0, {"q": 100, "r": 0})]
    picture = drawn(chart(depths, [], {"stop": 200}, {"q": 100}))
    (shade,) = picture.findall("path")
    (line, _), (mark, *_) = picture.findall("polyline"), picture.findall("line")
    corners = [tuple(map(float, point.split(","))) for point in shade.attrib["d"].strip("MZ").split()]
    ready = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert corners[2:] == ready[::-1]
    assert corners[1][1] == float(mark.attrib["y1"]), "100 ready and 100 unacked are at the mark of 200"
    assert ready[0][1] - corners[0][1] == pytest.approx(ready[1][1] - corners[1][1])


def test_a_long_run_is_thinned_out() -> None:
    depths = [Depth(float(at), {"q": at}) for at in range(20 * POINTS_MAX)]
    line = drawn(chart(depths, [], {}, {})).find("polyline")
    assert line is not None
    assert len(line.attrib["points"].split()) <= POINTS_MAX


def test_stops_that_overlap_are_one() -> None:
    assert merged(STOPS) == [(2.0, 5.0), (7.0, 8.0)]
    assert merged([]) == []
