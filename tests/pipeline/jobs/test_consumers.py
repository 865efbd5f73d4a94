"""Consumers that do harm, against a plain computation."""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.telemetry.schema import DEPTH
from pipeline.jobs import consumers
from pipeline.jobs.consumers import Limits
from pipeline.jobs.queues import queues
from router.model.delaying import delay_queue_of
from tests.pipeline.day import Day
from tests.pipeline.plain import backlog, by_place
from tests.pipeline.tables import Row, assert_same, frame


def verdict(facts: Row, limits: Limits) -> str | None:
    if not facts["acked"] and not facts["delivered"] and (facts["stopped_ms"] or facts["dropped"]):
        return "hostile"
    if facts["stuck_ms"] >= limits.idle_ms and not facts["acked"]:
        return "dead"
    if facts["delivered"] >= limits.looping_least and facts["redelivered"] > limits.looping * facts["delivered"]:
        return "looping"
    if facts["alone_ms"] >= limits.idle_ms:
        return "forgotten"
    if facts["stuck_ms"] >= limits.idle_ms:
        return "stuck"
    if facts["growth"] > 0 and facts["consumers"] and facts["acked"] < limits.slow * facts["published"]:
        return "slow"
    return None


def plain_consumers(depth: list[Row], limits: Limits) -> list[Row]:
    results = []
    for (node, vhost, queue), rows in by_place(depth).items():
        facts: Row = {"node": node, "vhost": vhost, "queue": queue}
        facts["consumers"] = max(row["consumers"] for row in rows)
        facts |= {"depth": backlog(rows[-1]), "growth": backlog(rows[-1]) - backlog(rows[0])}
        for name in ("published", "delivered", "acked", "redelivered", "dropped"):
            facts[name] = sum(row[f"n_{name}"] for row in rows)
        full = [row for row in rows if backlog(row)]
        facts["alone_ms"] = sum(row["interval_ms"] for row in full if not row["consumers"])
        idle = [row for row in full if row["consumers"] and not row["n_acked"] and not row["n_delivered"]]
        facts["stuck_ms"] = sum(row["interval_ms"] for row in idle)
        facts["stopped_ms"] = sum(row["interval_ms"] for row in rows if row["saturated"])
        facts["verdict"] = verdict(facts, limits)
        if facts["verdict"]:
            results.append(facts)
    return sorted(results, key=lambda row: (-row["stopped_ms"], -row["depth"], row["node"], row["vhost"], row["queue"]))


def test_whose_consumers_do_harm(spark: SparkSession, day: Day) -> None:
    expected = plain_consumers(day.depth, Limits())
    assert_same(consumers.consumers(queues(frame(spark, DEPTH, day.depth)), Limits()), consumers.TABLE, expected)
    assert {"hostile", "looping", "stuck"} <= {row["verdict"] for row in expected}


def test_each_verdict(spark: SparkSession, day: Day) -> None:
    """Each queue differs in one respect from a queue whose consumers do all they should."""
    good = {**day.depth[0], "ready": 10, "unacked": 0, "n_published": 100, "n_delivered": 100, "n_acked": 100}
    good |= {"n_redelivered": 0, "n_dropped": 0, "interval_ms": 30_000, "consumers": 1, "saturated": False}
    kinds: dict[str, Row] = {
        "good": {},
        "hostile": {"n_acked": 0, "n_delivered": 0, "consumers": 0, "n_dropped": 1},
        "dead": {"n_acked": 0, "n_delivered": 0},
        "looping": {"n_redelivered": 90},
        "forgotten": {"consumers": 0},
        "slow": {"n_acked": 90},
    }
    rows = [
        {**good, **facts, "queue": kind, "ts": day.since + step, "seq": step, "ready": 10 + step}
        for kind, facts in kinds.items()
        for step in range(4)
    ]
    for row in rows[-4:]:
        stuck = {**row, "queue": "stuck"}
        if row["seq"] % 2:
            stuck |= {"n_acked": 0, "n_delivered": 0}
        rows.append(stuck)
    expected = plain_consumers(rows, Limits())
    rows += [{**row, "queue": delay_queue_of("x")} for row in rows if row["queue"] == "forgotten"]
    assert_same(consumers.consumers(queues(frame(spark, DEPTH, rows)), Limits()), consumers.TABLE, expected)
    assert all(row["queue"] == row["verdict"] for row in expected)
    assert {row["queue"] for row in expected} == {*kinds, "stuck"} - {"good"}
