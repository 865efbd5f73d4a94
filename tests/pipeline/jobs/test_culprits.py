"""The culprits' ledger against a plain computation that goes through each episode minute by minute."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from pyspark.sql import SparkSession

from penstock.telemetry.schema import DEPTH
from pipeline.jobs import culprits, episodes
from tests.pipeline.day import Day
from tests.pipeline.plain import Place, backlog, named_queue, plain_episodes
from tests.pipeline.tables import Row, assert_same, frame, percentile, rows_of

MINUTE = 60_000_000


def plain_faults(depth: list[Row]) -> dict[tuple[str, str, str, int], str]:
    minutes: dict[Any, list[Row]] = defaultdict(list)
    for row in depth:
        minutes[row["node"], row["vhost"], row["queue"], row["ts"] // MINUTE].append(row)
    takes: dict[Place, list[int]] = defaultdict(list)
    for (node, vhost, queue, _), rows in minutes.items():
        acked = sum(row["n_acked"] for row in rows)
        if acked and max(row["consumers"] for row in rows) and max(map(backlog, rows)):
            takes[node, vhost, queue].append(acked)
    found = {}
    for (node, vhost, queue, minute), rows in minutes.items():
        acked = sum(row["n_acked"] for row in rows)
        if not max(row["consumers"] for row in rows):
            found[node, vhost, queue, minute] = "no consumers"
        elif not acked:
            found[node, vhost, queue, minute] = "consumers stuck"
        elif takes[node, vhost, queue] and acked < percentile(takes[node, vhost, queue], 0.5) / 2:
            found[node, vhost, queue, minute] = "consumers slow"
        else:
            found[node, vhost, queue, minute] = "producers"
    return found


def plain_culprits(found: list[Row], depth: list[Row], until: int) -> list[Row]:
    faults = plain_faults(depth)
    waited: dict[Any, int] = defaultdict(int)
    counted: dict[Any, set[int]] = defaultdict(set)
    pushed: dict[Any, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for number, row in enumerate(found):
        end = row["ended"] or until
        pushed[row["node"], row["vhost"], named_queue(row)][row["user"]] += (row["parked"] or 0) + (
            row["after_stop"] or 0
        )
        for minute in range(row["started"] // MINUTE, max(row["started"], end - 1) // MINUTE + 1):
            fault = "limit"
            if row["queue"] is not None:
                fault = faults.get((row["node"], row["vhost"], row["queue"], minute), "unknown")
            key = (row["node"], row["vhost"], named_queue(row), fault, row["user"], row["product"] or "(unknown)")
            waited[key] += min(end, (minute + 1) * MINUTE) - max(row["started"], minute * MINUTE)
            counted[key].add(number)
    results = []
    for key, us in waited.items():
        pushers = {user: amount for user, amount in pushed[key[:3]].items() if amount}
        most = min(pushers, key=lambda user: (-pushers[user], user)) if pushers else None
        results.append(
            {
                **dict(zip(("node", "vhost", "queue", "fault", "user", "product"), key, strict=True)),
                "stopped_ms": us // 1000,
                "episodes": len(counted[key]),
                "pusher": most,
                "pusher_share": pushers[most] / sum(pushers.values()) if most else None,
            }
        )
    return sorted(results, key=lambda row: (-row["stopped_ms"], *(row[name] for name in list(row)[:6])))


def test_who_caused_how_much_waiting_to_whom(spark: SparkSession, day: Day) -> None:
    found = plain_episodes(day.flow, day.until)
    expected = plain_culprits(found, day.depth, day.until)
    answer = culprits.culprits(frame(spark, episodes.TABLE, found), frame(spark, DEPTH, day.depth), day.until)
    assert_same(answer, culprits.TABLE, expected)
    faults = {row["fault"] for row in expected}
    assert {"no consumers", "consumers stuck", "producers", "limit"} <= faults


def test_no_time_is_lost_by_sharing_it_out(spark: SparkSession, day: Day) -> None:
    found = plain_episodes(day.flow, day.until)
    answer = culprits.culprits(frame(spark, episodes.TABLE, found), frame(spark, DEPTH, day.depth), day.until)
    shared = sum(row["stopped_ms"] for row in rows_of(answer))
    whole = sum((row["ended"] or day.until) - row["started"] for row in found) // 1000
    assert whole - len(rows_of(answer)) <= shared <= whole
