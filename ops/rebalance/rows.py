"""The input of a plan: one row per queue, with its load in a window of time.

The same rows come from the gauges of a running node (`ops.rebalance.sampling`) and from the files that `penstock
pipeline inputs` writes (`ops.rebalance.files`). `docs/rebalancing-plans.md` describes the columns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import orjson

QUEUES_MAX = 1_000_000
"""Rows of one plan, at most."""


class RowError(ValueError):
    """Unusable rows; the text is one line that says which row and why."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """The load of a queue in the window.

    Rates count messages published and delivered, per second; `p50_rate` and `p95_rate` are the median and the 95th
    percentile over the samples of the window, `p95_bytes_rate` the 95th percentile of the bytes of their bodies.
    `stopped_share` is the part of the window in which the queue held its producers, `coverage` the part of the samples
    that exist, both 0 to 1. Depths are ready and unacked messages, and the bytes of whole messages: the most in the
    window (`peak_…`), and at its end (`backlog…`). `shard` is the queue's place at the end of the window.
    """

    vhost: str
    queue: str
    shard: int
    p50_rate: float
    p95_rate: float
    p95_bytes_rate: float
    peak_depth: int
    peak_bytes: int
    stopped_share: float
    backlog: int
    backlog_bytes: int
    coverage: float

    @property
    def key(self) -> tuple[str, str]:
        """Vhost and name of the queue."""
        return self.vhost, self.queue


COLUMNS = tuple(field.name for field in fields(QueueRow))
_WHOLE = ("shard", "peak_depth", "peak_bytes", "backlog", "backlog_bytes")
_SHARES = ("stopped_share", "coverage")


def rows_of(records: Iterable[Mapping[str, Any]]) -> list[QueueRow]:
    """Read rows; return them in order of vhost and queue. RowError at the first error; other columns are ignored."""
    found: dict[tuple[str, str], QueueRow] = {}
    for number, record in enumerate(records, 1):
        if number > QUEUES_MAX:
            raise RowError(f"there are more than {QUEUES_MAX} rows")
        row = _row(number, record)
        if row.key in found:
            raise RowError(f"row {number}: queue '{row.queue}' in vhost '{row.vhost}' is there twice")
        found[row.key] = row
    return [found[key] for key in sorted(found)]


def digest(rows: Iterable[QueueRow]) -> str:
    """Return the SHA-256 of rows in hexadecimal digits, which does not depend on their order."""
    hashed = hashlib.sha256()
    for row in sorted(rows, key=lambda row: row.key):
        names = {name: _readable(value) for name, value in asdict(row).items()}
        hashed.update(orjson.dumps(names, option=orjson.OPT_APPEND_NEWLINE))
    return hashed.hexdigest()


def _row(number: int, record: Mapping[str, Any]) -> QueueRow:
    if not isinstance(record, Mapping):
        raise RowError(f"row {number} is not an object")
    missing = [name for name in COLUMNS if name not in record]
    if missing:
        raise RowError(f"row {number}: {', '.join(missing)} missing")
    values: dict[str, Any] = {}
    for name in COLUMNS:
        values[name] = _value(number, name, record[name])
    return QueueRow(**values)


def _value(number: int, name: str, value: Any) -> Any:
    if name in ("vhost", "queue"):
        if not isinstance(value, str):
            raise RowError(f"row {number}: {name} is not a string")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise RowError(f"row {number}: {name} is {value!r}, not a number from 0 on")
    if name in _SHARES and value > 1:
        raise RowError(f"row {number}: {name} is {value!r}, not a share from 0 to 1")
    if name in _WHOLE:
        if value != int(value):
            raise RowError(f"row {number}: {name} is {value!r}, not a whole number")
        return int(value)
    return float(value)


def _readable(value: Any) -> Any:
    """Encode a name in hexadecimal: it need not be UTF-8, as text in JSON must be."""
    return value.encode("utf-8", "surrogateescape").hex() if isinstance(value, str) else value
