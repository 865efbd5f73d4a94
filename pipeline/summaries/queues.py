"""Summaries of queues: rows of the table `depth`, a row a queue and span of time.

    node, vhost, queue
    first, last        states by the first and the last row: ts, seq, shard, depth, bytes, the four marks
    peak_*, consumers  greatest values; `peak_before`: messages of a row and those that left within its interval
    n_*, *_ms, …       sums
    drain, net         distributions of rates by row, in messages a second, as in `pipeline.jobs.queues`
    moved, moved_bytes distributions of sums by minute

A minute lies within an hour, so the minutes of an hour are whole, and merging keeps them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.jobs.queues import PLACE, PRESENT
from pipeline.jobs.rebalance_inputs import SLOT_US
from pipeline.summaries import distributions
from pipeline.summaries.distributions import Array

STATE: Final = pa.struct(
    [("ts", pa.int64()), ("seq", pa.int64()), ("shard", pa.int32()), ("depth", pa.int64()), ("bytes", pa.int64()),
     *((name, pa.int64()) for name in PRESENT)]
)  # fmt: skip
PEAKS: Final = ("peak_depth", "peak_before", "peak_bytes", "consumers")
SUMS: Final = (
    "rows", "rows_lost", "n_published", "n_delivered", "n_acked", "n_redelivered", "n_dropped",
    "depths", "depth_bytes", "sized", "sized_bytes", "covered_ms", "stopped_ms", "alone_ms", "stuck_ms",
)  # fmt: skip
"""`depths` and `depth_bytes` are sums over rows, as `sized` and `sized_bytes` over those that have `whole_bytes`."""
RATES: Final = ("drain", "net")
BY_MINUTE: Final = ("moved", "moved_bytes")
SCHEMA: Final = pa.schema(
    [*((name, pa.string()) for name in PLACE), ("first", STATE), ("last", STATE),
     *((name, pa.int64()) for name in (*PEAKS, *SUMS)),
     *((name, distributions.TYPE) for name in (*RATES, *BY_MINUTE))]
)  # fmt: skip
READ: Final = (
    *PLACE, "ts", "seq", "rows_lost", "shard", "ready", "unacked", "ready_bytes", "unacked_bytes", "whole_bytes",
    "n_published", "n_delivered", "n_acked", "n_redelivered", "n_dropped", "published_bytes", "delivered_bytes",
    "interval_ms", "consumers", "saturated", *PRESENT,
)  # fmt: skip
"""Columns of `depth` that a summary is made from."""


def summarize(rows: pa.Table) -> pa.Table:
    """Return the summary of each queue, by place. `rows` has the columns `READ`; no minute of a queue has rows
    elsewhere.
    """
    groups, places = _groups(rows)
    count = places.num_rows
    columns = _summands(rows)
    made = {**dict(zip(PLACE, places.columns, strict=True)), **_ends(rows, columns, groups)}
    for names, how in ((PEAKS, "max"), (SUMS, "sum")):
        made |= _aggregated(groups, {name: columns[name] for name in names}, how)
    for name in RATES:
        made[name] = distributions.of_values(groups, count, columns[name])
    minutes = rows.column("ts").to_numpy() // SLOT_US
    base = minutes.min(initial=0)
    span = int(minutes.max(initial=0) - base) + 1
    slots, slot = np.unique(groups * span + (minutes - base), return_inverse=True)
    for name, sums in _aggregated(slot, {name: columns[name] for name in BY_MINUTE}, "sum").items():
        made[name] = distributions.of_values(slots // span, count, _floats(sums))
    return pa.table(made).select(SCHEMA.names).cast(SCHEMA)


def merge(summaries: pa.Table) -> pa.Table:
    """Return one summary for each queue, by place. `summaries` has the columns of `SCHEMA`."""
    groups, places = _groups(summaries)
    count = places.num_rows
    made = dict(zip(PLACE, places.columns, strict=True))
    for name, last in (("first", False), ("last", True)):
        ends = pc.struct_field(summaries.column(name), "ts"), pc.struct_field(summaries.column(name), "seq")
        made[name] = summaries.column(name).take(_ends_at(groups, *map(_integers, ends), last=last))
    for names, how in ((PEAKS, "max"), (SUMS, "sum")):
        made |= _aggregated(groups, {name: summaries.column(name) for name in names}, how)
    for name in (*RATES, *BY_MINUTE):
        made[name] = distributions.merged(groups, count, summaries.column(name).combine_chunks())
    return pa.table(made).select(SCHEMA.names).cast(SCHEMA)


def _summands(rows: pa.Table) -> dict[str, Any]:
    """Return the summands and the values compared, a column each; rates as floats, NaN where a row has none."""
    column = rows.column
    depth = pc.add(column("ready"), column("unacked"))
    nbytes = pc.coalesce(column("whole_bytes"), pc.add(column("ready_bytes"), column("unacked_bytes")))
    interval, seconds = column("interval_ms"), _floats(column("interval_ms")) / 1000
    full, attached = pc.greater(depth, 0), pc.greater(column("consumers"), 0)
    idle = pc.and_(pc.equal(column("n_acked"), 0), pc.equal(column("n_delivered"), 0))
    busy = np.asarray(pc.fill_null(pc.and_(full, attached), False))
    growth = pc.subtract(column("n_published"), column("n_acked"))
    with np.errstate(divide="ignore", invalid="ignore"):
        acked, net = _floats(column("n_acked")) / seconds, _floats(growth) / seconds
    alone, stuck = pc.and_(full, pc.invert(attached)), pc.and_(pc.and_(full, attached), idle)
    return {name: column(name) for name in (*SUMS, *PEAKS) if name in READ} | {
        "rows": pa.chunked_array([np.ones(rows.num_rows, np.int64)]),
        "depth": depth, "bytes": nbytes, "peak_depth": depth, "depths": depth, "peak_bytes": nbytes,
        "depth_bytes": nbytes, "peak_before": pc.add(pc.add(depth, column("n_acked")), column("n_dropped")),
        "sized": pc.if_else(pc.is_valid(column("whole_bytes")), depth, None), "sized_bytes": column("whole_bytes"),
        "covered_ms": interval,
        **{f"{name}_ms": pc.if_else(pc.fill_null(when, False), interval, 0)
           for name, when in (("stopped", column("saturated")), ("alone", alone), ("stuck", stuck))},
        "drain": np.where(busy & (seconds > 0), acked, np.nan), "net": np.where(seconds > 0, net, np.nan),
        "moved": pc.add(column("n_published"), column("n_delivered")),
        "moved_bytes": pc.add(column("published_bytes"), column("delivered_bytes")),
    }  # fmt: skip


def _groups(table: pa.Table) -> tuple[Array, pa.Table]:
    """Return the group of each row, and the places of the groups in order."""
    code = np.zeros(table.num_rows, np.int64)
    for name in PLACE:
        encoded = table.column(name).combine_chunks().dictionary_encode()
        code = code * (len(encoded.dictionary) + 1) + np.asarray(pc.fill_null(encoded.indices, len(encoded.dictionary)))
    _, first, groups = np.unique(code, return_index=True, return_inverse=True)
    places = table.select(PLACE).take(first)
    order = np.asarray(pc.sort_indices(places, sort_keys=[(name, "ascending") for name in PLACE]))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[groups].astype(np.int64), places.take(order)


def _ends(rows: pa.Table, columns: dict[str, Any], groups: Array) -> dict[str, pa.Array]:
    """Return the states of the first and the last row of each group."""
    ts, seq = (_integers(rows.column(name)) for name in ("ts", "seq"))
    made = {}
    for name, last in (("first", False), ("last", True)):
        at = _ends_at(groups, ts, seq, last=last)
        fields = [columns[name] if name in columns else rows.column(name) for name in STATE.names]
        taken = [each.take(at).combine_chunks().cast(field.type) for each, field in zip(fields, STATE, strict=True)]
        made[name] = pa.StructArray.from_arrays(taken, fields=list(STATE))
    return made


def _ends_at(groups: Array, ts: Array, seq: Array, *, last: bool) -> Array:
    """Return the index of the first or the last row of each group."""
    order = np.lexsort((seq, ts, groups))
    edge = np.ones(len(order), bool)
    differs = np.diff(groups[order]) != 0
    if last:
        edge[:-1] = differs
    else:
        edge[1:] = differs
    return np.asarray(order[edge])


def _aggregated(groups: Array, columns: dict[str, Any], how: str) -> dict[str, pa.ChunkedArray]:
    """Aggregate columns by group, in order of the groups. Nulls do not count; of nothing else the result is null."""
    table = pa.table({"group": groups, **columns})
    found = table.group_by("group", use_threads=False).aggregate([(name, how) for name in columns]).sort_by("group")
    return {name: found.column(f"{name}_{how}") for name in columns}


def _floats(column: Any) -> Array:
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False) if isinstance(column, pa.Array)
                      else column.cast(pa.float64()).to_numpy())  # fmt: skip


def _integers(column: Any) -> Array:
    return np.asarray(pc.fill_null(column, 0))
