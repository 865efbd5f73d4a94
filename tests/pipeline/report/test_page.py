"""The page of a report, made from plain values without Spark."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest

from penstock.telemetry.schema import TABLES
from pipeline.report.advice import advise
from pipeline.report.contents import Report
from pipeline.report.formats import length, unbroken
from pipeline.report.page import NOTHING, TITLES, page
from tests.pipeline.report.reports import NASTY, SINCE, quiet, reported, trouble

VOID = {"meta", "br", "hr", "img", "link"}


class Checker(HTMLParser):
    """A parser that fails on tags that do not match and on ids that are there twice, and keeps tags, ids and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.ids += [value for name, value in attributes if name == "id" and value is not None]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def checked(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert not checker.open
    assert len(set(checker.ids)) == len(checker.ids)
    return checker


def section(text: str, name: str) -> str:
    own = text[text.index(f'<section id="{name}"') :]
    return own[: own.index("</section>")]


def rows_in(text: str, name: str) -> int:
    body = section(text, name).partition("<tbody>")[2]
    return body.count("<tr>")


@pytest.mark.parametrize("report", [reported(40), trouble(("a", "b")), quiet(), reported(0)], ids=range(4))
def test_a_page_is_whole_and_fetches_nothing(report: Report) -> None:
    text = page(report)
    checker = checked(text)
    assert not checker.tags & {"script", "link", "img", "iframe"}
    links = re.findall(r'href="([^"]*)"', text)
    assert {link.removeprefix("#") for link in links} <= set(checker.ids)
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"https?:|@import|src=", text)


def test_names_are_texts_and_nothing_else() -> None:
    text = page(reported(40))
    checker = checked(text)
    assert "<script" not in text
    assert NASTY in "".join(checker.texts)
    assert f"Depth of {NASTY}" in unescape(text)


@pytest.mark.parametrize("report", [trouble(), trouble(("a", "b")), quiet(), reported(40)], ids=range(4))
def test_sentences_come_first_then_pictures_then_tables(report: Report) -> None:
    text, advice = page(report), advise(report)
    assert f'<p id="who">{unbroken(advice.held)}</p>' in unescape(text)
    command = advice.change.command if advice.change else None
    shown = re.findall(r'<code id="command">(.*)</code>', text)
    assert [unescape(re.sub("</?span>", "", each)) for each in shown] == ([command] if command else [])
    body = text[text.index("<body>") :]
    places = [
        body.index(f'id="{name}"') for name in ("who", "pictures", *(name for name in TITLES if report.rows(name)))
    ]
    assert places == sorted(places)
    assert "<table" not in body[: body.index("<nav")]
    assert "<svg" not in body[body.index("<nav") :]


def test_several_nodes_are_shown_apart_and_together() -> None:
    report = reported(2)
    assert 'id="nodes"' not in page(report)
    assert ">node<" not in page(report)
    for answer in report.answers.values():
        for row, node in zip(answer.rows, ("here", "there"), strict=True):
            row["node"] = node
    report.answers["held"].rows[1]["stopped_ms"] = 3_600_000
    text = page(report)
    checked(text)
    table = text[text.index('id="nodes"') :]
    apart = dict(re.findall(r'<tr><td>(\w+)</td><td class="number">([^<]+)</td>', table[: table.index("</table>")]))
    assert apart == {"here": length(1_500.0), "there": length(3_600.0)}
    assert f"<b>{length(5_100.0)}</b> held, summed over channels" in text
    assert ">node<" in section(text, "time_to_full")


def test_every_recommended_mark_has_its_before_and_after() -> None:
    text = page(reported(40))
    assert rows_in(text, "marks") == 20
    assert rows_in(text, "what_if") == 40
    assert "of more than 40 rows" in text


def test_what_is_foreseen_for_the_next_hour_is_red_apart_from_what_is_full() -> None:
    report = reported(4)
    for row, seconds in zip(report.answers["time_to_full"].rows, (0.0, 1.0, 3_599.0, 3_600.0), strict=True):
        row["seconds"] = seconds
    text = page(report)
    assert '<li class="bad"><b>1</b> queues full at the end</li>' in text
    assert '<li class="bad"><b>2</b> queues foreseen full within an hour</li>' in text
    for row in report.answers["time_to_full"].rows:
        row["seconds"] = 3_600.0
    text = page(report)
    assert "<li><b>0</b> queues full at the end</li>" in text
    assert "<li><b>0</b> queues foreseen full within an hour</li>" in text


def test_sums_say_what_they_sum() -> None:
    text = page(trouble())
    for name in ("held", "culprits"):
        assert '<th class="number">stopped<small>summed over channels</small></th>' in section(text, name)
    assert "Time held, summed over channels, by user and client." in section(text, "pictures")
    assert "Beside each queue: time held, summed over\nchannels." in section(text, "pictures")


def test_episodes_that_began_earlier_are_said_to_count_in_full() -> None:
    report = trouble()
    words = "Episodes that began before 2026-11-20 11:00:00 count in full."
    assert words not in page(report)
    report.rows("episodes")[0]["started"] = SINCE - 1
    assert words in page(report)


def test_meanings_are_on_the_page_and_not_only_under_a_pointer() -> None:
    report = trouble()
    text = "".join(checked(page(report)).texts)
    for name in TITLES:
        answer = report.answers[name]
        assert answer.table.meaning.replace("`", "") in text
    assert "`" not in text


def test_files_that_were_left_out_are_counted_and_named() -> None:
    report = reported(1)
    report.unreadable = {**{name: [] for name in TABLES}, "depth": [f"file-{number}" for number in range(50)]}
    text = page(report)
    assert '<td class="number">50</td>' in text
    assert "Unreadable files of depth:" in text and "file-19 and 30 more" in text
    assert "Unreadable files of flow" not in text


def test_a_page_has_no_password() -> None:
    report = trouble()
    report.root = "s3a://key:dont-print-this@bucket/telemetry"
    report.unreadable["flow"] = ["s3a://key:dont-print-this@bucket/telemetry/flow/x.jsonl.zst"]
    text = page(report)
    assert "dont-print-this" not in text
    assert "s3a://key:***@bucket/telemetry." in text


def test_a_report_of_nothing_says_so() -> None:
    text = page(reported(0))
    checked(text)
    assert all(words in text for words in NOTHING.values())
    assert NOTHING.keys() == TITLES.keys()
    assert "<table" not in text[: text.index('id="sources"')]


def test_a_short_range_has_seconds() -> None:
    text = page(trouble(until=SINCE + 60_000_000))
    assert ">11:00:20</text>" in text
    assert ", 60 s, node-1" in text
