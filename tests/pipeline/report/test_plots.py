"""Plots: elements of a page that show all their data, without ids that clash or names that act as markup."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from pipeline.report.answers import Curve
from pipeline.report.plots import BARS_MOST, COLOURS, FAULTS, depth, held, shard_load

SINCE = 1_795_172_400_000_000
MINUTE = 60_000_000


def load(node: str, shard: int, slot: int, messages: int, covered: int = 60_000) -> dict[str, Any]:
    moved = {"msgs_in": messages // 2, "msgs_out": messages - messages // 2}
    return {"node": node, "shard": shard, "slot": SINCE + slot * MINUTE, "covered_ms": covered, **moved}


def parsed(svg: str) -> ElementTree.Element:
    """Parse a plot. ParseError if it is not well-formed. In a page the prefix of links need not be declared."""
    return ElementTree.fromstring(svg.replace("<svg ", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" ', 1))


def texts(svg: str) -> set[str]:
    """Return the texts of a plot."""
    return {text for element in parsed(svg).iter() for text in [(element.text or "").strip()] if text}


def test_a_plot_is_an_element_of_a_page() -> None:
    svg = shard_load([load("a", 0, slot, 600) for slot in range(5)], SINCE, SINCE + 5 * MINUTE)
    assert svg.startswith('<svg class="plot" viewBox="0 0 ')
    head = svg[: svg.index(">")]
    assert "width" not in head and "height" not in head, "the page sets its size"
    assert "<metadata" not in svg
    assert [element.tag for element in parsed(svg).iter()].count("svg") == 1


def test_each_shard_has_a_line_by_its_name_and_its_node_if_there_are_several() -> None:
    one = [load("a", shard, slot, 600) for shard in range(10) for slot in range(3)]
    assert {f"shard {shard}" for shard in range(10)} <= texts(shard_load(one, SINCE, SINCE + MINUTE))
    both = [load(node, 0, slot, 600) for node in "ab" for slot in range(3)]
    found = texts(shard_load(both, SINCE, SINCE + MINUTE))
    assert {"a 0", "b 0"} <= found
    assert "shard 0" not in found


def test_a_slot_without_time_is_no_load() -> None:
    rows = [load("a", 0, 0, 600, covered=0), load("a", 0, 1, 600)]
    assert "shard 0" in texts(shard_load(rows, SINCE, SINCE + MINUTE))


def test_the_users_held_longest_have_bars_and_unknown_faults_too() -> None:
    rows = [{"user": f"u{number:02}", "product": "p", "fault": FAULTS[number % 6], "stopped_ms": 60_000 * (number + 1)}
            for number in range(BARS_MOST + 3)]  # fmt: skip
    rows.append({"user": "u17", "product": "p", "fault": "of a newer penstock", "stopped_ms": 60_000})
    found = texts(held(rows))
    assert {text for text in found if text.endswith(" (p)")} == {f"u{number:02} (p)" for number in range(3, 18)}
    assert {*FAULTS, "of a newer penstock"} <= found


def test_a_fault_that_held_nobody_is_not_in_the_legend() -> None:
    rows = [{"user": "u", "product": "p", "fault": "limit", "stopped_ms": 60_000}]
    assert texts(held(rows)) & set(FAULTS) == {"limit"}


@pytest.mark.parametrize(("stop", "marks"), [(0, set()), (20_000, {"stop 20,000", "resume 10,000"})])
def test_a_curve_has_the_marks_of_its_queue_if_there_are_any(stop: int, marks: set[str]) -> None:
    curve = Curve("node-1", "/", "q", [(SINCE + step * MINUTE, step) for step in range(30)], stop, stop // 2)
    found = texts(depth(curve))
    assert {text for text in found if text.startswith(("stop", "resume"))} == marks
    assert "depth" in found


def test_names_are_text_and_ids_of_two_plots_differ() -> None:
    nasty = "<script>alert('&')</script> $\\bad{$"
    svg = held([{"user": nasty, "product": "p", "fault": "limit", "stopped_ms": 60_000}])
    assert "<script" not in svg
    assert f"{nasty} (p)" in texts(svg)

    def ids(queue: str) -> set[str]:
        points = [(SINCE, 1), (SINCE + MINUTE, 2)]
        clips = re.findall(r'<clipPath id="([^"]+)"', depth(Curve("node-1", "/", queue, points, 20, 10)))
        assert clips
        return set(clips)

    assert ids("a") & ids("b") == set()
    assert ids("a") == ids("a")


def test_there_is_a_colour_for_each_fault() -> None:
    assert len(set(COLOURS)) == len(COLOURS) >= len(FAULTS)
