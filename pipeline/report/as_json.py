"""The report as JSON, for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pipeline.report.advice import advise
from pipeline.report.contents import Report
from pipeline.report.formats import without_passwords

VERSION = 1


def as_json(report: Report) -> str:
    """Return one JSON object: version, since, until (µs since 1970), root, counts and unreadable files by table, the
    fields of `Advice` as `sentences`, whether it is `summarized`, and for each answer its meaning, columns, rows, and
    whether there were more.
    """
    content: dict[str, Any] = {
        "version": VERSION,
        "root": without_passwords(report.root),
        "since": report.since,
        "until": report.until,
        "counts": report.counts,
        "unreadable": {name: [*map(without_passwords, files)] for name, files in report.unreadable.items()},
        "sentences": asdict(advise(report)),
        "summarized": report.is_summarized,
        "answers": {
            name: {
                "meaning": answer.table.meaning,
                "columns": [
                    {"name": column.name, "type": column.type, "unit": column.unit, "meaning": column.meaning}
                    for column in answer.table.columns
                ],
                "rows": answer.rows,
                "more": answer.more,
                "seconds": answer.seconds,
            }
            for name, answer in report.answers.items()
        },
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
