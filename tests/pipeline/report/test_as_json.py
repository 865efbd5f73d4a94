"""The report as JSON: every column with its meaning, and every row."""

from __future__ import annotations

import json

from pipeline.answers import TABLES as ANSWERS
from pipeline.report.as_json import VERSION, as_json
from tests.pipeline.report.test_page import NASTY, SINCE, UNTIL, reported


def test_json_has_every_column() -> None:
    notices = json.loads(as_json(reported(2)))
    assert notices["answers"].keys() == {table.name for table in ANSWERS}
    for answer in notices["answers"].values():
        assert [column["name"] for column in answer["columns"]] == list(answer["rows"][0])


def test_each_answer_describes_its_columns_and_keeps_its_rows() -> None:
    report = reported(40)
    notices = json.loads(as_json(report))
    assert (notices["version"], notices["root"], notices["since"], notices["until"]) == (
        VERSION,
        "/telemetry",
        SINCE,
        UNTIL,
    )
    assert notices["counts"] == report.counts
    assert notices["unreadable"] == report.unreadable
    for table in ANSWERS:
        answer, kept = notices["answers"][table.name], report.answers[table.name]
        assert answer["meaning"] == table.meaning
        assert (answer["rows"], answer["more"], answer["seconds"]) == (kept.rows, True, 1.0)
        for column, declared in zip(answer["columns"], table.columns, strict=True):
            described = declared.name, declared.type, declared.unit, declared.meaning
            assert (column["name"], column["type"], column["unit"], column["meaning"]) == described


def test_names_are_readable_text() -> None:
    report = reported(1)
    text = as_json(report)
    assert json.dumps(NASTY) in text
    report.root = "/données"
    assert '"/données"' in as_json(report)
    assert text.endswith("}\n")
