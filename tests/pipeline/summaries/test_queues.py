"""Summaries of queues: however rows are cut into hours and days, the same facts."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.parts import plain
from pipeline.summaries import queues
from tests.pipeline.day import SINCE, UNTIL, made
from tests.pipeline.plain import backlog, by_place, nbytes
from tests.pipeline.tables import Row

MINUTE_US = 60_000_000
DAY = made(seed=7)


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, plain("depth")).select(queues.READ)


def test_facts_are_those_of_the_rows() -> None:
    found = queues.summarize(table(DAY.depth)).to_pylist()
    places = by_place(DAY.depth)
    assert [(row["node"], row["vhost"], row["queue"]) for row in found] == sorted(places)
    for summary in found:
        own = places[summary["node"], summary["vhost"], summary["queue"]]
        assert summary["rows"] == len(own)
        for end, row in (("first", own[0]), ("last", own[-1])):
            state = {name: row[name] for name in ("ts", "seq", "shard", "stop_count", "resume_count", "stop_bytes")}
            state |= {"resume_bytes": row["resume_bytes"], "depth": backlog(row), "bytes": nbytes(row)}
            assert summary[end] == state
        assert summary["peak_depth"] == max(map(backlog, own))
        assert summary["peak_before"] == max(backlog(row) + row["n_acked"] + row["n_dropped"] for row in own)
        assert summary["n_acked"] == sum(row["n_acked"] for row in own)
        assert summary["stopped_ms"] == sum(row["interval_ms"] for row in own if row["saturated"])
        minutes = {row["ts"] // MINUTE_US for row in own}
        assert sum(pair["times"] for pair in summary["moved"]) == len(minutes)
        rates = [row for row in own if row["interval_ms"] > 0]
        assert sum(pair["times"] for pair in summary["net"]) == len(rates)


@given(st.lists(st.integers(0, (UNTIL - SINCE) // MINUTE_US), max_size=4), st.randoms())
def test_summaries_of_parts_merge_to_that_of_the_whole(cuts: list[int], random: object) -> None:
    """Parts are cut between minutes, as hours are, and come in any order."""
    edges = [SINCE, *(SINCE + cut * MINUTE_US for cut in sorted(cuts)), UNTIL]
    parts = [
        queues.summarize(table([row for row in DAY.depth if begin <= row["ts"] < end]))
        for begin, end in pairwise(edges)
    ]
    random.shuffle(parts)
    assert queues.merge(pa.concat_tables(parts)).equals(queues.summarize(table(DAY.depth)))


def test_of_rows_of_one_time_the_number_decides() -> None:
    row = DAY.depth[0]
    rows = [{**row, "seq": row["seq"] + number, "ready": number, "shard": number} for number in (5, 9, 2)]
    (found,) = queues.summarize(table(rows)).to_pylist()
    assert (found["first"]["shard"], found["last"]["shard"]) == (2, 9)


def test_columns_that_no_row_has_are_nothing() -> None:
    """Rows of an earlier release lack columns."""
    (found,) = queues.summarize(table([{**DAY.depth[0], "whole_bytes": None, "published_bytes": None}])).to_pylist()
    assert (found["sized"], found["sized_bytes"], found["moved_bytes"]) == (None, None, [])
    assert found["peak_bytes"] == nbytes({**DAY.depth[0], "whole_bytes": None})


def test_no_rows_have_no_summaries() -> None:
    assert queues.summarize(table([])).num_rows == queues.merge(queues.SCHEMA.empty_table()).num_rows == 0
