"""The replay against marks: its rule by hand, its stops and channels against a plain computation."""

from __future__ import annotations

import math
from collections import defaultdict

import pytest
from pyspark.sql import SparkSession

from penstock.telemetry.schema import DEPTH, Column, Table
from pipeline.jobs import episodes, what_if
from pipeline.jobs.queues import PLACE, queues
from tests.pipeline.day import NODE, Day
from tests.pipeline.plain import backlog, by_place, nbytes, plain_episodes
from tests.pipeline.tables import Row, assert_same, frame, rows_of

MARKS = Table(
    "tried",
    "",
    (
        *(Column(name, "string", "", "") for name in PLACE),
        *(Column(name, "bigint", "", "") for name in ("stop_count", "resume_count", "stop_bytes", "resume_bytes")),
    ),
)


def place_of(row: Row) -> tuple[str, ...]:
    """Return node, vhost and queue."""
    return tuple(row[name] for name in PLACE)


def mark_of(marks: Row, name: str, row: Row) -> float:
    """Return a mark of a queue, in messages of the size that a row shows."""
    count = marks[f"{name}_count"] if marks["stop_count"] else math.inf
    if marks["stop_bytes"] and nbytes(row):
        return float(min(count, marks[f"{name}_bytes"] * backlog(row) // nbytes(row)))
    return float(count)


def plain_stops(depth: list[Row], tried: list[Row]) -> list[Row]:
    """Return the stops, computed from the messages that came, those that wait and those that are in the queue."""
    results = []
    for marks in tried:
        rows = by_place(depth).get(place_of(marks), [])
        rates = sorted(
            row["n_acked"] / row["interval_ms"]
            for row in rows
            if backlog(row) and row["n_acked"] and row["interval_ms"]
        )
        usual = rates[len(rates) // 2] if rates else 0
        inside = waiting = 0.0
        current: Row | None = None
        for number, row in enumerate(rows):
            if not number:
                inside = max(backlog(row) - row["n_published"] + row["n_acked"] + row["n_dropped"], 0)
            waiting += row["n_published"]
            stop = mark_of(marks, "stop", row)
            if current is None:
                room = max(stop + 1 - inside, 0)
                inside, waiting = inside + min(room, waiting), waiting - min(room, waiting)
                if inside > stop:
                    current = {**{name: marks[name] for name in PLACE}, "started": row["ts"], "ended": None}
                    current |= {"peak_depth": 0, "peak_waiting": 0}
                    results.append(current)
            if current is not None:
                current["last"] = row["ts"]
                current["peak_depth"] = max(current["peak_depth"], int(inside))
                current["peak_waiting"] = max(current["peak_waiting"], int(waiting))
            able = row["n_acked"] if backlog(row) else max(row["n_acked"], usual * row["interval_ms"])
            inside = max(inside - able - row["n_dropped"], 0)
            if current is not None and inside <= mark_of(marks, "resume", row):
                current["ended"], current = row["ts"], None
    for row in results:
        row["stopped_ms"] = ((row["ended"] or row["last"]) - row["started"]) // 1000
    return results


def plain_what_if(stops: list[Row], tried: list[Row], depth: list[Row]) -> list[Row]:
    groups = defaultdict(list)
    for row in stops:
        groups[place_of(row)].append(row)
    marks = {place_of(row): row for row in tried}
    results = []
    for place, known in by_place(depth).items():
        if place not in marks:
            continue
        rows = groups[place]
        held = sum(row["interval_ms"] for row in depth if place_of(row) == place and row["saturated"])
        results.append(
            {
                **dict(zip(PLACE, place, strict=True)),
                **{name: marks[place][name] for name in ("stop_count", "resume_count")},
                "stops": len(rows),
                "stopped_ms": sum(row["stopped_ms"] for row in rows),
                "longest_ms": max((row["stopped_ms"] for row in rows), default=0),
                "peak_depth": max((row["peak_depth"] for row in rows), default=None),
                **{f"was_{name}": known[-1][name] for name in ("stop_count", "resume_count")},
                "was_stopped_ms": held,
                "was_peak_depth": max(map(backlog, known)),
            }
        )
    return sorted(results, key=lambda row: (-max(row["stopped_ms"], row["was_stopped_ms"]), *place_of(row)))


def plain_stopped_channels(stops: list[Row], found: list[Row]) -> list[Row]:
    channels = {
        (*place_of(row), row["user"], row["product"] or "(unknown)", row["connection"], row["channel"]) for row in found
    }
    results = []
    for channel in channels:
        own = [row["stopped_ms"] for row in stops if place_of(row) == channel[:3]]
        if own:
            names = (*PLACE, "user", "product", "connection", "channel", "stops", "stopped_ms")
            results.append(dict(zip(names, (*channel, len(own), sum(own)), strict=True)))
    return sorted(results, key=lambda row: (-row["stopped_ms"], *place_of(row), row["connection"], row["channel"]))


def tried_on(day: Day, share: float) -> list[Row]:
    """Return marks at a share of the present ones, also for queues without marks and for one that does not exist."""
    lasts = {place: rows[-1] for place, rows in by_place(day.depth).items()}
    tried = [
        {"node": node, "vhost": vhost, "queue": queue}
        | {name: int(last[name] * share) for name in ("stop_count", "resume_count", "stop_bytes", "resume_bytes")}
        for (node, vhost, queue), last in lasts.items()
    ]
    absent = {
        "node": NODE,
        "vhost": "/",
        "queue": "absent",
        "stop_count": 1,
        "resume_count": 0,
        "stop_bytes": 0,
        "resume_bytes": 0,
    }
    return [*tried, absent]


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_before_and_after_and_who_would_have_been_stopped(spark: SparkSession, day: Day, share: float) -> None:
    tried = tried_on(day, share)
    depth, marks = frame(spark, DEPTH, day.depth), frame(spark, MARKS, tried)
    stops = what_if.stops(depth, marks)
    expected = plain_stops(day.depth, tried)
    assert_same(stops, what_if.STOPS, expected, in_order=False)
    found = plain_episodes(day.flow, day.until)
    answer = what_if.what_if(stops, marks, queues(depth))
    assert_same(answer, what_if.TABLE, plain_what_if(expected, tried, day.depth))
    results = rows_of(answer)
    assert sorted(map(place_of, results)) == sorted({place_of(row) for row in tried} - {(NODE, "/", "absent")})
    assert any(row["stops"] == 0 for row in results)
    who = plain_stopped_channels(expected, found)
    assert who
    assert_same(what_if.stopped_channels(stops, frame(spark, episodes.TABLE, found)), what_if.CHANNELS, who)


def test_lower_marks_stop_earlier(day: Day) -> None:
    low, high = (plain_stops(day.depth, tried_on(day, share)) for share in (0.3, 1.0))
    assert sum(row["stopped_ms"] for row in low) > sum(row["stopped_ms"] for row in high) > 0


def test_messages_that_are_all_header_are_stopped_at_a_mark_in_bytes(spark: SparkSession, day: Day) -> None:
    """Each row adds 10 messages of 5,000 bytes without a body, and none leaves: the fifth row exceeds the mark."""
    like = {**day.depth[0], "queue": "headers", "unacked": 0, "ready_bytes": 0, "unacked_bytes": 0, "n_acked": 0}
    rows = [
        {**like, "ts": day.since + step, "seq": step, "ready": 10 * step, "whole_bytes": 50_000 * step,
         "n_published": 10, "n_dropped": 0}
        for step in range(1, 9)
    ]  # fmt: skip
    tried = {"node": NODE, "vhost": "/", "queue": "headers", "stop_count": 0, "resume_count": 0}
    marks = frame(spark, MARKS, [{**tried, "stop_bytes": 200_000, "resume_bytes": 100_000}])
    (stop,) = rows_of(what_if.stops(frame(spark, DEPTH, rows), marks))
    assert (stop["started"], stop["ended"], stop["peak_depth"]) == (day.since + 5, None, 41)


def test_what_waits_comes_when_there_is_room() -> None:
    """100 messages come and 50 go per step: the queue stops at 220, resumes at 100, and no waiting message is lost."""
    rows = [(step * 1_000_000, 1, 100, 50, 0, 1_000, 219.0, 100.0) for step in range(8)]
    found = what_if.replay(iter(rows))
    assert [(stop.started, stop.ended) for stop in found] == [(3_000_000, 5_000_000), (6_000_000, None)]
    assert found[0].peak_depth == 220
    assert found[1].peak_waiting > found[0].peak_waiting > 0


def test_without_marks_nobody_is_stopped() -> None:
    rows = [(step * 1_000_000, step, 100, 0, 0, 1_000, math.inf, math.inf) for step in range(8)]
    assert what_if.replay(iter(rows)) == []
