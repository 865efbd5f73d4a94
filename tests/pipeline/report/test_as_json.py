"""The report as JSON: every column with its meaning, and every row."""

from __future__ import annotations

import json

from pipeline.answers import TABLES as ANSWERS
from pipeline.report.advice import advise
from pipeline.report.as_json import VERSION, as_json
from tests.pipeline.report.reports import NASTY, SINCE, UNTIL, quiet, reported, trouble


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
    assert notices["summarized"] is False
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


def test_the_sentences_of_the_page_are_fields() -> None:
    report = trouble()
    sentences, advice = json.loads(as_json(report))["sentences"], advise(report)
    assert advice.change is not None and advice.change.command is not None
    assert sentences == {
        "held": advice.held,
        "change": {"text": advice.change.text, "command": advice.change.command, "note": advice.change.note},
        "next": advice.next,
    }
    assert json.loads(as_json(quiet()))["sentences"] == {"held": advise(quiet()).held, "change": None, "next": None}


def test_there_is_no_password() -> None:
    report = trouble()
    report.root = "s3a://key:dont-print-this@bucket/telemetry"
    report.unreadable["flow"] = [f"{report.root}/flow/x.jsonl.zst"]
    text = as_json(report)
    assert "dont-print-this" not in text
    assert json.loads(text)["root"] == "s3a://key:***@bucket/telemetry"
