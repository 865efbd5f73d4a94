"""The page of a report, made from plain values without Spark."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from penstock.telemetry.schema import TABLES, Table
from penstock.text.durations import shown
from pipeline.answers import TABLES as ANSWERS
from pipeline.report.answers import Answer, Curve, Report
from pipeline.report.page import NOTHING, TITLES, page

SINCE, UNTIL = 1_795_172_400_000_000, 1_795_173_600_000_000
NASTY = r"<script>alert('&')</script> $\bad{$"
VALUES = {"bigint": 1_500_000, "int": 3, "smallint": 3, "double": 0.25, "string": NASTY, "boolean": True}
VOID = {"meta", "br", "hr", "img", "link"}


class Checker(HTMLParser):
    """A parser that fails on tags that do not match, and keeps the tags seen."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def reported(rows: int) -> Report:
    """Return a report with `rows` rows of each answer: every text nasty, every other row null where possible."""
    counts = {name: {"rows": 1, "corrupt": 0, "lost": 0} for name in TABLES}
    report = Report("/telemetry", SINCE, UNTIL, counts, {name: [NASTY] * (name == "flow") for name in TABLES})
    for table in ANSWERS:
        report.answers[table.name] = Answer(table, [row(table, number) for number in range(rows)], rows > 30, 1.0)
    if rows:
        report.curves = [Curve("node-1", "/", NASTY, [(SINCE + step * 1_000_000, step) for step in range(30)], 20, 10)]
    return report


def row(table: Table, number: int) -> dict[str, Any]:
    return {column.name: None if column.nullable and number % 2 else VALUES[column.type] for column in table.columns}


def checked(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert not checker.open
    return checker


def test_names_are_texts_and_nothing_else() -> None:
    text = page(reported(40))
    assert not checked(text).tags & {"script", "link", "img", "iframe"}
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert all(link.startswith("#") for link in re.findall(r'href="([^"]*)"', text))
    assert "of more than 40 rows" in text


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
    assert apart == {"here": shown(1_500.0), "there": shown(3_600.0)}
    assert f"<b>{shown(5_100.0)}</b>held, summed over channels" in text
    assert ">node<" in text[text.index('id="time_to_full"') :]


def rows_in(text: str, section: str) -> int:
    own = text[text.index(f'<section id="{section}">') :]
    return own[: own.index("</section>")].count("<tr><td")


def test_every_recommended_mark_has_its_before_and_after() -> None:
    text = page(reported(40))
    assert rows_in(text, "marks") == 20
    assert rows_in(text, "what_if") == 40


def test_what_is_foreseen_for_the_next_hour_is_red_apart_from_what_is_full() -> None:
    report = reported(4)
    for row, seconds in zip(report.answers["time_to_full"].rows, (0.0, 1.0, 3_599.0, 3_600.0), strict=True):
        row["seconds"] = seconds
    text = page(report)
    assert "<li class=bad><b>1</b>queues full at the end</li>" in text
    assert "<li class=bad><b>2</b>foreseen full within an hour</li>" in text
    for row in report.answers["time_to_full"].rows:
        row["seconds"] = 3_600.0
    text = page(report)
    assert "<li><b>0</b>queues full at the end</li><li><b>0</b>foreseen full within an hour</li>" in text


def test_files_that_were_left_out_are_counted_and_named() -> None:
    report = reported(1)
    report.unreadable = {**{name: [] for name in TABLES}, "depth": [f"file-{number}" for number in range(50)]}
    text = page(report)
    assert '<td class="number">50</td>' in text
    assert "Unreadable files of depth:" in text and "file-19 and 30 more" in text
    assert "Unreadable files of flow" not in text


def test_a_report_of_nothing_says_so() -> None:
    text = page(reported(0))
    checked(text)
    assert all(words in text for words in NOTHING.values())
    assert NOTHING.keys() == TITLES.keys()
