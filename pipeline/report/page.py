"""The report as one self-contained page: no script, and no style sheet, picture or font from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from typing import Any

from penstock.telemetry.schema import Column
from penstock.text.durations import shown
from pipeline.report import plots
from pipeline.report.answers import Answer, Report, Row

TITLES = {
    "time_to_full": "Time to full",
    "held": "Held producers",
    "culprits": "Who caused the waiting",
    "disobedience": "Publishing after a stop",
    "consumers": "Harmful consumers",
    "marks": "Recommended marks",
    "what_if": "What the recommended marks would have done",
    "hot_shards": "Shards",
    "episodes": "Longest flow episodes",
    "rebalance_inputs": "Queues, for rebalancing",
}
"""The page's sections in order."""
ROWS_SHOWN = 20
IN_FULL = ("what_if",)
"""Sections with all rows of their answers: every recommended mark has its before and after."""
HOUR_S = 3600
NOTHING = {
    "time_to_full": "No queue is full, or grows towards its mark.",
    "held": "No producer was held.",
    "culprits": "No producer was held.",
    "disobedience": "No client was told to stop.",
    "consumers": "No consumer does harm.",
    "marks": "No consumer was seen at work.",
    "what_if": "No marks are recommended.",
    "hot_shards": "No shard was seen.",
    "episodes": "There were no episodes.",
    "rebalance_inputs": "No queue was seen.",
}
STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --faint: #777; --hot: #d9534f; }
@media (prefers-color-scheme: dark) { :root { --faint: #999; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.5rem; margin-bottom: 0.2rem; }
h2 { font-size: 1.15rem; margin: 2.4rem 0 0.3rem; }
p.what, .range { color: var(--faint); margin: 0.1rem 0 0.8rem; max-width: 60rem; }
nav { display: flex; flex-wrap: wrap; gap: 0.1rem 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 0.6rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; vertical-align: bottom; }
th small { display: block; font-weight: 400; color: var(--faint); }
td.number, th.number { text-align: right; }
tr:hover td { background: var(--soft); }
.plot { display: block; width: 100%; max-width: 60rem; height: auto; margin: 0.4rem 0; }
.facts { display: flex; flex-wrap: wrap; gap: 0.6rem; margin: 1rem 0; padding: 0; list-style: none; }
.facts li { border: 1px solid var(--line); border-radius: 0.5rem; padding: 0.4rem 0.9rem; }
.facts b { display: block; font-size: 1.25rem; }
.bad > b { color: var(--hot); }
@media print { nav { display: none; } }
"""


def page(report: Report) -> str:
    """Render the whole page."""
    return "".join(
        [
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>penstock: report</title>',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<style>{STYLE}</style></head><body>\n",
            *_head(report),
            *(part for name in TITLES for part in _section(report, name)),
            *_sources(report),
            "</body></html>\n",
        ]
    )


def _head(report: Report) -> Iterator[str]:
    yield "<h1>What held producers, and what will</h1>"
    span, nodes = shown((report.until - report.since) / 1e6), _nodes(report)
    where = f", {', '.join(map(escape, nodes))}" if nodes else ""
    yield f'<p class="range">{_time(report.since)} to {_time(report.until)} (UTC), {span}{where}</p>'
    yield "<nav>" + "".join(f'<a href="#{name}">{escape(title)}</a>' for name, title in TITLES.items()) + "</nav>"
    yield '<ul class="facts">'
    for name, value, bad in _facts(report, None):
        yield f"<li{' class=bad' if bad else ''}><b>{escape(value)}</b>{escape(name)}</li>"
    yield "</ul>\n"
    if len(nodes) > 1:
        yield '<div class="scroll"><table id="nodes"><thead><tr><th>node</th>'
        yield "".join(f'<th class="number">{escape(name)}</th>' for name, _, _ in _facts(report, None))
        yield "</tr></thead><tbody>"
        for node in nodes:
            values = "".join(f'<td class="number">{escape(value)}</td>' for _, value, _ in _facts(report, node))
            yield f"<tr><td>{escape(node)}</td>{values}</tr>"
        yield "</tbody></table></div>\n"


def _nodes(report: Report) -> list[str]:
    """Return the nodes that the answers name."""
    return sorted({row["node"] for answer in report.answers.values() for row in answer.rows if "node" in row})


def _facts(report: Report, node: str | None) -> Iterator[tuple[str, str, bool]]:
    """Yield the figures of a node, or of all together: name, value, and whether it is bad. A + stands for rows that the
    report does not have.
    """

    def rows(name: str) -> list[Row]:
        return [row for row in report.answers[name].rows if node in (None, row["node"])]

    def amount(name: str, wanted: list[Row]) -> str:
        more = report.answers[name].more and len(wanted) == len(rows(name))
        return f"{len(wanted):,}{'+' if more else ''}"

    held, full = rows("held"), [row for row in rows("time_to_full") if row["seconds"] == 0]
    soon = [row for row in rows("time_to_full") if 0 < row["seconds"] < HOUR_S]
    hot, harmful = [row for row in rows("hot_shards") if row["hot"]], rows("consumers")
    stopped = sum(row["stopped_ms"] for row in held) / 1000
    yield "held, summed over channels", shown(stopped) + ("+" if report.answers["held"].more else ""), stopped > 0
    yield "queues full at the end", amount("time_to_full", full), bool(full)
    yield "foreseen full within an hour", amount("time_to_full", soon), bool(soon)
    yield "hot shards", amount("hot_shards", hot), bool(hot)
    yield "queues with harmful consumers", amount("consumers", harmful), bool(harmful)


def _section(report: Report, name: str) -> Iterator[str]:
    answer = report.answers[name]
    yield f'<section id="{name}"><h2>{escape(TITLES[name])}</h2>'
    yield f'<p class="what">{escape(answer.table.meaning)}</p>'
    if not answer.rows:
        yield f"<p>{escape(NOTHING[name])}</p>"
    else:
        yield from _pictures(report, name)
        yield from _table(answer, len(_nodes(report)) > 1)
    yield "</section>\n"


def _pictures(report: Report, name: str) -> Iterator[str]:
    if name == "culprits":
        yield plots.held(report.answers[name].rows)
    elif name == "hot_shards" and report.answers["shard_load"].rows:
        yield plots.shard_load(report.answers["shard_load"].rows, report.since, report.until)
    elif name == "marks":
        for curve in report.curves:
            where = f"{curve.vhost} on {curve.node}" if len(_nodes(report)) > 1 else curve.vhost
            yield f"<h3>{escape(curve.queue)} in {escape(where)}</h3>{plots.depth(curve)}"


def _table(answer: Answer, with_node: bool) -> Iterator[str]:
    columns = [column for column in answer.table.columns if with_node or column.name != "node"]
    yield '<div class="scroll"><table><thead><tr>'
    for column in columns:
        unit = "" if _is_time(column) else escape(column.unit)
        yield f'<th{_class(column)} title="{escape(column.meaning)}">{_heading(column)}<small>{unit}</small></th>'
    yield "</tr></thead><tbody>"
    shown_rows = answer.rows if answer.table.name in IN_FULL else answer.rows[:ROWS_SHOWN]
    for row in shown_rows:
        cells = (f"<td{_class(column)}>{_cell(column, row[column.name])}</td>" for column in columns)
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    if answer.more or len(answer.rows) > len(shown_rows):
        total = f"more than {len(answer.rows):,}" if answer.more else f"{len(answer.rows):,}"
        yield f'<p class="what">The first {len(shown_rows)} of {total} rows.</p>'


def _sources(report: Report) -> Iterator[str]:
    yield '<section id="sources"><h2>Sources</h2>'
    yield f'<p class="what">Telemetry in {escape(report.root)}. Corrupt rows do not fit their table and are left out, '
    yield "as are files that cannot be read; lost rows were dropped by their writers for lack of room.</p>"
    kinds = ("rows", "corrupt", "lost", "unreadable files")
    yield "<table><thead><tr><th>table</th>" + "".join(f'<th class="number">{kind}</th>' for kind in kinds)
    yield "</tr></thead><tbody>"
    for name, counts in report.counts.items():
        amounts = *(counts[kind] for kind in kinds[:3]), len(report.unreadable[name])
        cells = "".join(f'<td class="number">{amount:,}</td>' for amount in amounts)
        yield f"<tr><td>{name}</td>{cells}</tr>"
    yield "</tbody></table>"
    for name, files in report.unreadable.items():
        if files:
            more = f" and {len(files) - ROWS_SHOWN:,} more" if len(files) > ROWS_SHOWN else ""
            yield f'<p class="bad"><b>Unreadable files of {name}:</b> {escape(", ".join(files[:ROWS_SHOWN]))}{more}</p>'
    yield "</section>\n"


def _heading(column: Column) -> str:
    return escape(column.name.removesuffix("_ms").removesuffix("_us").replace("_", " "))


def _class(column: Column) -> str:
    return ' class="number"' if column.type in ("bigint", "int", "smallint", "double") else ""


def _is_time(column: Column) -> bool:
    return column.unit.startswith("µs since 1970") or column.unit in ("ms", "s", "µs")


def _cell(column: Column, value: Any) -> str:
    """Format a value for people."""
    if value is None:
        return "–"
    if column.unit.startswith("µs since 1970"):
        return _time(value)
    if column.unit in ("ms", "s", "µs"):
        return _length(value / {"ms": 1e3, "s": 1, "µs": 1e6}[column.unit])
    if column.unit.startswith("bytes"):
        return _size(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def _length(seconds: float) -> str:
    return shown(seconds) if seconds >= 1 or seconds == 0 else f"{seconds * 1000:.3g} ms"


def _size(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
