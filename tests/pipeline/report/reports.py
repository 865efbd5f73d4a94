"""Reports as plain values, without Spark: a day with trouble, a quiet one, and one of nothing but traps."""

from __future__ import annotations

from math import sin
from random import Random
from typing import Any

from penstock.telemetry.schema import TABLES, Table
from pipeline.answers import TABLES as ANSWERS
from pipeline.report.contents import Answer, Curve, Report

Row = dict[str, Any]

SINCE, UNTIL = 1_795_172_400_000_000, 1_795_173_600_000_000
DAY_US = 86_400_000_000
MINUTE_US = 60_000_000
SLOT_US = 300_000_000
NASTY = r"<script>alert('&')</script> $\bad{$"
VALUES: dict[str, Any] = {
    "bigint": 1_500_000, "int": 3, "smallint": 3, "double": 0.25, "string": NASTY, "boolean": True,
}  # fmt: skip
ZERO: dict[str, Any] = {"bigint": 0, "int": 0, "smallint": 0, "double": 0.0, "string": "", "boolean": False}
LONG = "orders.eu-central-1.warehouse.outbound.reservations.priority.v2.retry-after-timeout"


def row(table: Table, number: int) -> Row:
    """Return a row with every text nasty, and with nulls where possible if `number` is odd."""
    return {column.name: None if column.nullable and number % 2 else VALUES[column.type] for column in table.columns}


def reported(rows: int) -> Report:
    """Return a report with `rows` rows of each answer: every text nasty, every other row null where possible."""
    counts = {name: {"rows": 1, "corrupt": 0, "lost": 0} for name in TABLES}
    unreadable = {name: [NASTY] * (name == "flow") for name in TABLES}
    report = Report("/telemetry", SINCE, UNTIL, SLOT_US, counts, unreadable)
    for table in ANSWERS:
        report.answers[table.name] = Answer(table, [row(table, number) for number in range(rows)], rows > 30, 1.0)
    if rows:
        report.curves = [Curve("node-1", "/", NASTY, [(SINCE + step * 1_000_000, step) for step in range(30)], 20, 10)]
    return report


def quiet(since: int = SINCE, until: int = SINCE + DAY_US, nodes: tuple[str, ...] = ("node-1",)) -> Report:
    """Return the report of a time in which nobody was held."""
    counts = {name: {"rows": 1_234_567, "corrupt": 0, "lost": 0} for name in TABLES}
    report = Report("/var/lib/penstock/telemetry", since, until, SLOT_US, counts, {name: [] for name in TABLES})
    report.answers = {table.name: Answer(table, [], False, 1.0) for table in ANSWERS}
    random = Random(4)
    for node in nodes:
        for shard in range(8):
            level = 0 if shard > 4 else random.uniform(100, 900)
            for slot in range(since - since % SLOT_US, until, SLOT_US):
                rate = int(level * (1.2 + sin(slot / DAY_US * 6.28)) * random.uniform(0.9, 1.1))
                add(report, "shard_load", node=node, shard=shard, slot=slot, msgs_in=rate * 30, msgs_out=rate * 30,
                    covered_ms=60_000)  # fmt: skip
            add(report, "hot_shards", node=node, shard=shard, load=level, p95_load=level * 2, load_to_mean=1.0,
                slots=288, worst_lag_us=2_100, cpu=level / 2000)  # fmt: skip
        for number in range(30):
            rate = max(0.0, 400.0 - number * 40)
            add(report, "rebalance_inputs", node=node, vhost="/", queue=f"events.{number}", shard=number % 8,
                p50_rate=rate / 2, p95_rate=rate, coverage=0.99)  # fmt: skip
    return report


def trouble(nodes: tuple[str, ...] = ("node-1",), since: int = SINCE, until: int = SINCE + DAY_US) -> Report:
    """Return the report of a time in which queues held producers."""
    report, random = quiet(since, until, nodes), Random(11)
    length = until - since
    for node in nodes:
        for number, (queue, user, product, fault, cause, share) in enumerate(HOLDS):
            _hold(report, random, node, (queue, user, product, fault, cause), share / (1 + nodes.index(node)))
            if queue is not None and number < 4:
                _marks(report, node, queue, round(share * length / 1000))
        add(report, "time_to_full", node=node, vhost="/", queue="invoices", shard=1, depth=9_000, stop_count=8_000,
            full_by="count", samples=600)  # fmt: skip
        add(report, "time_to_full", node=node, vhost="shop", queue=LONG, shard=2, depth=6_200, stop_count=8_000,
            growth=3.2, seconds=562.5, full_by="count", fit=0.97, samples=600)  # fmt: skip
        add(report, "consumers", node=node, vhost="/", queue="invoices", verdict="forgotten", depth=9_000,
            published=2_000_000, acked=1_900_000, alone_ms=3_600_000, stopped_ms=2_400_000)  # fmt: skip
        add(report, "disobedience", node=node, product="(unknown)", product_version="(unknown)", episodes=30,
            notified=20, obeyed=4, after_stop=4_321, p99_after_stop=88.0)  # fmt: skip
        add(
            report,
            "disobedience",
            node=node,
            product="pika",
            product_version="1.3.2",
            episodes=30,
            notified=20,
            obeyed=20,
        )
    for name in ("held", "culprits", "episodes"):
        report.rows(name).sort(key=lambda row: -int(row["stopped_ms"]))
    hot = report.rows("hot_shards")[0]
    hot |= {"hot": True, "why": "load", "load_to_mean": 2.4, "loaded_slots": 200}
    report.unreadable["depth"] = [f"dt=2026-11-20/hour=13/node-1-console-{number}.jsonl.zst" for number in range(3)]
    return report


HOLDS: tuple[tuple[str | None, str, str, str, str, float], ...] = (
    ("orders", "shop", "pika", "producers", "count", 0.1),
    ("invoices", "billing-service", "penstock-client", "no consumers", "count", 0.08),
    (LONG, "warehouse", "Bunny", "consumers slow", "bytes", 0.05),
    ("audit", "ann", "py-amqp", "consumers stuck", "count", 0.03),
    (None, "shop", "pika", "limit", "memory", 0.02),
    ("events.7", "ben", "(unknown)", "producers", "rate", 0.015),
    (None, "ann", "py-amqp", "limit", "operator", 0.01),
)


def add(report: Report, answer: str, **facts: Any) -> None:
    """Add a row to an answer; columns that are not given are null, or 0."""
    table = report.answers[answer].table
    unknown = facts.keys() - {column.name for column in table.columns}
    assert not unknown, f"{answer} has no {unknown}"
    defaults = {column.name: None if column.nullable else ZERO[column.type] for column in table.columns}
    report.rows(answer).append(defaults | facts)


def _hold(report: Report, random: Random, node: str, hold: tuple[str | None, str, str, str, str], share: float) -> None:
    queue, user, product, fault, cause = hold
    length, spent, number = report.until - report.since, 0, 0
    at = report.since + int(random.uniform(0, 0.3) * length)
    while spent < share * length and at < report.until:
        ended = min(at + int(random.uniform(0.005, 0.04) * length), report.until)
        add(report, "episodes", node=node, vhost="/", queue=queue, cause=cause, connection=f"0.1.{number}", channel=1,
            user=user, product=None if product == "(unknown)" else product, started=at, ended=ended,
            stopped_ms=(ended - at) // 1000, outcome="free", parked=12)  # fmt: skip
        spent, number = spent + ended - at, number + 1
        at = ended + int(random.uniform(0.001, 0.1) * length)
    named = {"node": node, "vhost": "/", "queue": queue or f"({cause})", "user": user, "product": product}
    ms = spent // 1000
    add(
        report,
        "held",
        **named,
        episodes=number,
        channels=3,
        stopped_ms=ms,
        p95_ms=ms / 9,
        longest_ms=ms // 5,
        parked=12,
    )
    pushed = {"pusher": user, "pusher_share": 0.8}
    add(report, "culprits", **named, fault=fault, stopped_ms=ms * 4 // 5, episodes=number, **pushed)
    if queue is not None:
        add(report, "culprits", **named, fault="unknown", stopped_ms=ms // 5, episodes=1, **pushed)


def _marks(report: Report, node: str, queue: str, ms: int) -> None:
    place = {"node": node, "vhost": "/", "queue": queue}
    add(report, "marks", **place, stop_count=12_000, resume_count=8_400, stop_rule="overshoot", resume_rule="share",
        present_stop_count=8_000, present_resume_count=5_600, drain=410.5, overshoot=512, overshoot_by="episodes",
        stopped_ms=ms)  # fmt: skip
    add(report, "what_if", **place, stop_count=12_000, resume_count=8_400, stops=3, stopped_ms=ms // 3,
        longest_ms=ms // 9, was_stop_count=8_000, was_resume_count=5_600, was_stopped_ms=ms,
        was_peak_depth=8_300)  # fmt: skip
    length = report.until - report.since
    points = [
        (report.since + step * length // 240, int(4000 + 4200 * abs(sin(step / 17 + len(queue)))))
        for step in range(240)
    ]
    report.curves.append(Curve(node, "/", queue, points, 8_000, 5_600))
