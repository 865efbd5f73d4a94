"""The report as one self-contained page: no script, and no style sheet, picture or font from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from penstock.text.durations import shown
from pipeline.report import plots
from pipeline.report.advice import HOUR_S, advise
from pipeline.report.axes import Span
from pipeline.report.contents import Report, Row
from pipeline.report.formats import length, moment, unbroken, without_passwords
from pipeline.report.tables import ROWS_SHOWN, Table, table
from pipeline.report.timeline import timeline

TITLES = {
    "held": "Held producers",
    "culprits": "Who caused the waiting",
    "time_to_full": "Time to full",
    "consumers": "Harmful consumers",
    "marks": "Recommended marks",
    "what_if": "What the recommended marks would have done",
    "disobedience": "Publishing after a stop",
    "episodes": "Longest flow episodes",
    "hot_shards": "Shards",
    "rebalance_inputs": "Queues, for rebalancing",
}
"""The page's tables in order."""
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
SOURCES = ("rows", "corrupt", "lost")


@dataclass(frozen=True, slots=True)
class Section:
    """An answer with rows: its id on the page, title, meaning and table."""

    name: str
    title: str
    meaning: str
    table: Table


@dataclass(frozen=True, slots=True)
class Fact:
    """A figure: its value, whether it is bad, and its name."""

    value: str
    bad: bool
    name: str


def page(report: Report) -> str:
    """Render the whole page."""
    environment = Environment(
        loader=PackageLoader("pipeline.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["unbroken"] = unbroken
    span, nodes = Span(report.since, report.until), report.nodes()
    several = len(nodes) > 1
    return environment.get_template("page.html").render(
        since=moment(report.since),
        until=moment(report.until),
        length=shown((report.until - report.since) / 1e6),
        nodes=nodes,
        advice=advise(report),
        facts=list(_facts(report, None)),
        facts_by_node=[(node, list(_facts(report, node))) for node in nodes] if several else [],
        timeline=timeline(report.rows("episodes"), span, several),
        has_more_episodes=report.answers["episodes"].more,
        held=plots.held(report.rows("culprits")),
        depths=[(curve, plots.depth(curve, span)) for curve in report.curves],
        load=plots.shard_load(report.rows("shard_load"), span, report.load_slot_us),
        slot=shown(report.load_slot_us / 1e6),
        sections=[_section(report, name, several) for name in TITLES if report.rows(name)],
        nothing=[(name, TITLES[name], NOTHING[name]) for name in TITLES if not report.rows(name)],
        root=without_passwords(report.root),
        kinds=SOURCES,
        counts=report.counts,
        unreadable={name: [*map(without_passwords, files)] for name, files in report.unreadable.items()},
        most_files=ROWS_SHOWN,
        is_summarized=report.is_summarized,
    )


def _section(report: Report, name: str, with_node: bool) -> Section:
    answer = report.answers[name]
    return Section(name, TITLES[name], answer.table.meaning, table(answer, with_node))


def _facts(report: Report, node: str | None) -> Iterator[Fact]:
    """Yield the figures of a node, or of all together. A + stands for rows that the report does not have."""

    def rows(name: str) -> list[Row]:
        return [row for row in report.rows(name) if node in (None, row["node"])]

    def amount(name: str, wanted: list[Row]) -> str:
        more = report.answers[name].more and len(wanted) == len(rows(name))
        return f"{len(wanted):,}{'+' if more else ''}"

    held, full = rows("held"), [row for row in rows("time_to_full") if row["seconds"] == 0]
    soon = [row for row in rows("time_to_full") if 0 < row["seconds"] < HOUR_S]
    hot, harmful = [row for row in rows("hot_shards") if row["hot"]], rows("consumers")
    stopped = sum(row["stopped_ms"] for row in held) / 1000
    more = "+" if report.answers["held"].more else ""
    yield Fact(length(stopped) + more, stopped > 0, "held, summed over channels")
    yield Fact(amount("time_to_full", full), bool(full), "queues full at the end")
    yield Fact(amount("time_to_full", soon), bool(soon), "queues foreseen full within an hour")
    yield Fact(amount("hot_shards", hot), bool(hot), "hot shards")
    yield Fact(amount("consumers", harmful), bool(harmful), "queues with harmful consumers")
