"""Nodes that have queues, users and connections of the same names: the answers of both together are those of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.telemetry.schema import CONNECTION, DEPTH, Table
from pipeline.jobs import (
    consumers,
    culprits,
    disobedience,
    episodes,
    held,
    marks,
    rebalance_inputs,
    time_to_full,
    trend,
    what_if,
)
from pipeline.jobs.marks import Goals
from pipeline.jobs.queues import queues
from tests.pipeline.day import SINCE, UNTIL, Day, made
from tests.pipeline.jobs.test_consumers import plain_consumers
from tests.pipeline.jobs.test_culprits import plain_culprits
from tests.pipeline.jobs.test_disobedience import plain_disobedience
from tests.pipeline.jobs.test_held import plain_held
from tests.pipeline.jobs.test_marks import plain_marks
from tests.pipeline.jobs.test_rebalance_inputs import plain_rebalance_inputs
from tests.pipeline.jobs.test_time_to_full import plain_time_to_full
from tests.pipeline.jobs.test_what_if import MARKS, plain_stopped_channels, plain_stops, plain_what_if, tried_on
from tests.pipeline.plain import plain_episodes
from tests.pipeline.tables import Row, assert_same, frame

AT = UNTIL - 300_000_000
WINDOW, LEAST = trend.WINDOW_US, trend.SAMPLES_LEAST
LIMITS, GOALS = consumers.Limits(), Goals()
Answer = Callable[[Day], list[Row]]


def found(day: Day) -> list[Row]:
    return plain_episodes(day.flow, UNTIL)


def tried(day: Day) -> list[Row]:
    return [{**row, "stop_bytes": row["stop_bytes"] or 0, "resume_bytes": row["resume_bytes"] or 0}
            for row in plain_marks(day.depth, found(day), GOALS)]  # fmt: skip


PLAIN: dict[str, Answer] = {
    "held": lambda day: plain_held(found(day)),
    "disobedience": lambda day: plain_disobedience(found(day), day.connection),
    "culprits": lambda day: plain_culprits(found(day), day.depth, UNTIL),
    "time_to_full": lambda day: plain_time_to_full(day.depth, AT, WINDOW, LEAST),
    "marks": lambda day: plain_marks(day.depth, found(day), GOALS),
    "what_if_stops": lambda day: plain_stops(day.depth, tried(day)),
    "what_if": lambda day: plain_what_if(plain_stops(day.depth, tried(day)), tried(day), day.depth),
    "what_if_channels": lambda day: plain_stopped_channels(plain_stops(day.depth, tried_on(day, 0.3)), found(day)),
    "consumers": lambda day: plain_consumers(day.depth, LIMITS),
    "rebalance_inputs": lambda day: plain_rebalance_inputs(day.depth, SINCE, UNTIL),
}
"""Each answer for one node alone."""


@pytest.fixture(scope="module")
def nodes() -> list[Day]:
    """Days of two nodes with the same six queues."""
    days = []
    for node, seed in (("here", 1), ("there", 2)):
        day = made(seed)
        chosen = set(sorted({row["queue"] for row in day.depth})[::7])
        for name in ("depth", "flow", "connection"):
            rows = [{**row, "node": node} for row in getattr(day, name) if row.get("queue") in {*chosen, None}]
            setattr(day, name, rows)
        days.append(day)
    return days


@pytest.fixture(scope="module")
def answers(spark: SparkSession, nodes: list[Day]) -> dict[str, tuple[Table, DataFrame]]:
    """Each answer for both nodes together."""
    depth = frame(spark, DEPTH, [row for day in nodes for row in day.depth]).persist()
    connection = frame(spark, CONNECTION, [row for day in nodes for row in day.connection])
    both = frame(spark, episodes.TABLE, [row for day in nodes for row in found(day)]).persist()
    facts = queues(depth)
    recommended = marks.marks(facts, both, GOALS).persist()
    stops = what_if.stops(depth, recommended)
    low = what_if.stops(depth, frame(spark, MARKS, [row for day in nodes for row in tried_on(day, 0.3)]))
    made = [
        (held.TABLE, held.held(both)),
        (disobedience.TABLE, disobedience.disobedience(both, connection)),
        (culprits.TABLE, culprits.culprits(both, depth, UNTIL)),
        (time_to_full.TABLE, time_to_full.time_to_full(depth, SINCE, AT)),
        (marks.TABLE, recommended),
        (what_if.STOPS, stops),
        (what_if.TABLE, what_if.what_if(stops, recommended, facts)),
        (what_if.CHANNELS, what_if.stopped_channels(low, both)),
        (consumers.TABLE, consumers.consumers(facts, LIMITS)),
        (
            rebalance_inputs.TABLE,
            rebalance_inputs.rebalance_inputs(rebalance_inputs.with_rates(facts, depth), SINCE, UNTIL),
        ),
    ]
    return {table.name: (table, answer) for table, answer in made}


@pytest.mark.parametrize("name", PLAIN)
def test_nodes_are_apart(name: str, nodes: list[Day], answers: dict[str, tuple[Table, DataFrame]]) -> None:
    table, answer = answers[name]
    apart = [PLAIN[name](day) for day in nodes]
    assert all(apart)
    assert table.columns[0].name == "node"
    assert_same(answer, table, [row for rows in apart for row in rows], in_order=False)
