"""The page as a browser shows it: on a phone and on a desk, in light and in dark, with trouble and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.report.advice import advise
from pipeline.report.contents import Report
from pipeline.report.page import page
from tests.browser import Browser, Page, browser, program
from tests.pipeline.report.reports import SINCE, quiet, reported, trouble

pytestmark = [pytest.mark.long, pytest.mark.skipif(program() is None, reason="no Chromium is installed")]

PHONE, DESK = 390, 1280
TEXT_LEAST = 9
"""CSS pixels."""
CONTRAST_LEAST = 4.5
"""WCAG 2.2, 1.4.3, for text of ordinary size."""
CONTRAST_OF_SHAPES = 3.0
"""WCAG 2.2, 1.4.11."""
REPORTS = {
    "trouble": trouble(),
    "two nodes": trouble(("node-1", "node-2")),
    "quiet": quiet(),
    "minute": trouble(until=SINCE + 60_000_000),
    "five minutes": trouble(until=SINCE + 300_000_000),
    "traps": reported(40),
    "nothing": reported(0),
}

TOO_WIDE = """(() => {
  const clipped = it => { for (; it; it = it.parentElement)
    if (getComputedStyle(it).overflowX === 'auto') return true; return false };
  return [...document.querySelectorAll('body *')]
    .filter(it => it.getBoundingClientRect().right > innerWidth + 0.5 && !clipped(it))
    .map(it => it.outerHTML.slice(0, 100)) })()"""
"""Elements that end beyond the page, and are not in a container that scrolls."""
TEXTS = """[...document.querySelectorAll('svg text')].map(it => {
  const scale = it.getScreenCTM().a, box = it.getBoundingClientRect(), plot = it.ownerSVGElement;
  return {words: it.textContent, size: parseFloat(getComputedStyle(it).fontSize) * scale,
    left: box.left, right: box.right, top: box.top, bottom: box.bottom,
    plot: [...document.querySelectorAll('svg')].indexOf(plot)} })"""
"""Texts of pictures: their size, and their place on the page."""
CONTRASTS = """(() => {
  const channels = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * x + 0.7152 * y + 0.0722 * z };
  const behind = it => { for (; it; it = it.parentElement) {
    const found = channels(getComputedStyle(it).backgroundColor); if (found.length < 4 || found[3]) return found } };
  const ratio = (one, other) => { const [a, b] = [light(one), light(other)].sort((a, b) => b - a);
    return (a + 0.05) / (b + 0.05) };
  const own = it => [...it.childNodes].some(node => node.nodeType === 3 && node.data.trim());
  const texts = [...document.querySelectorAll('body *')].filter(it => own(it) && !it.closest('title, style'))
    .map(it => [it, getComputedStyle(it)[it.closest('svg') ? 'fill' : 'color']])
    .map(([it, colour]) => [it.outerHTML.slice(0, 80), ratio(channels(colour), behind(it))]);
  const shapes = [...document.querySelectorAll('.line:not(.rest), .mark')]
    .map(it => [it.outerHTML.slice(0, 80), ratio(channels(getComputedStyle(it).stroke), behind(it))]);
  const fills = [...document.querySelectorAll('pattern rect')]
    .map(it => [it.outerHTML, ratio(channels(getComputedStyle(it).fill), behind(document.body))]);
  return {texts, shapes: [...shapes, ...fills]} })()"""
"""The contrast of every text and of every line and bar with its background."""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


def shown(chromium: Browser, report: Report, directory: Path, width: int, dark: bool = False) -> Page:
    file = directory / "report.html"
    file.write_text(page(report))
    return chromium.open(file.as_uri(), width, dark=dark)


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", REPORTS)
def test_nothing_is_wider_than_the_page(chromium: Browser, tmp_path: Path, name: str, width: int) -> None:
    opened = shown(chromium, REPORTS[name], tmp_path, width)
    assert opened.evaluate("document.documentElement.scrollWidth") == width
    assert opened.evaluate(TOO_WIDE) == []
    assert opened.evaluate("document.querySelectorAll('table').length") >= 1


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", ["trouble", "quiet", "minute", "five minutes"])
def test_the_texts_of_pictures_can_be_read(chromium: Browser, tmp_path: Path, name: str, width: int) -> None:
    texts = shown(chromium, REPORTS[name], tmp_path, width).evaluate(TEXTS)
    assert texts
    for text in texts:
        assert text["size"] >= TEXT_LEAST, text
        assert text["left"] >= 0 and text["right"] <= width, text
    for text in texts:
        others = [other for other in texts if other is not text and other["plot"] == text["plot"]]
        assert not any(overlap(text, other) for other in others), text


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two texts touch; descenders of two lines may."""
    return bool(
        min(one["right"], other["right"]) > max(one["left"], other["left"])
        and min(one["bottom"], other["bottom"]) - max(one["top"], other["top"]) > 3
    )


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_command_can_be_copied(chromium: Browser, tmp_path: Path, width: int) -> None:
    report = REPORTS["trouble"]
    advice = advise(report)
    assert advice.change is not None and advice.change.command is not None
    opened = shown(chromium, report, tmp_path, width)
    opened.click("#command")
    assert opened.evaluate("String(getSelection())") == advice.change.command
    opened.edit("copy")
    opened.evaluate(
        "document.body.append(document.createElement('textarea')); document.querySelector('textarea').focus()"
    )
    opened.edit("paste")
    assert opened.evaluate("document.querySelector('textarea').value") == advice.change.command


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["trouble", "quiet"])
def test_texts_and_lines_stand_out(chromium: Browser, tmp_path: Path, name: str, dark: bool) -> None:
    opened = shown(chromium, REPORTS[name], tmp_path, DESK, dark)
    background = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") != dark
    found = opened.evaluate(CONTRASTS)
    assert len(found["texts"]) > 50
    assert [each for each in found["texts"] if each[1] < CONTRAST_LEAST] == []
    assert [each for each in found["shapes"] if each[1] < CONTRAST_OF_SHAPES] == []


@pytest.mark.parametrize("width", [PHONE, DESK])
def test_the_sentences_are_seen_without_scrolling(chromium: Browser, tmp_path: Path, width: int) -> None:
    opened = shown(chromium, REPORTS["trouble"], tmp_path, width)
    bottom = opened.evaluate("document.querySelector('#advice').getBoundingClientRect().bottom")
    assert bottom <= 900
    assert opened.evaluate("document.querySelector('#who').getBoundingClientRect().top") < 200


def test_a_hold_is_where_its_time_is(chromium: Browser, tmp_path: Path) -> None:
    """Bars of the timeline and labels of its axis share their scale."""
    report = REPORTS["five minutes"]
    opened = shown(chromium, report, tmp_path, DESK)
    bars = opened.evaluate(
        "[...document.querySelectorAll('.lanes')[0].querySelectorAll('rect.bar')].map(it => {"
        " const box = it.getBoundingClientRect(), plot = it.ownerSVGElement.getBoundingClientRect();"
        " return [(box.left - plot.left) / plot.width, box.width / plot.width] })"
    )
    length = report.until - report.since
    rows = report.rows("episodes")
    assert len(bars) == len(rows)
    expected = sorted(((row["started"] - report.since) / length, row["stopped_ms"] * 1000 / length) for row in rows)
    for (at, width), (began, share) in zip(sorted(bars), expected, strict=True):
        assert at == pytest.approx(began, abs=0.002)
        assert width == pytest.approx(share, abs=0.003)
