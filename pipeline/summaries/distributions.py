"""Distributions: how often each value occurred, with values rounded so that few differ.

Rounding is to the nearest power of `RATIO`, so a rounded value, and with it any percentile of rounded values, differs
from the true one by at most `ERROR`. Zero stays zero. Merging distributions adds their counts, and loses nothing more.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa

RATIO: Final = 1.04
ERROR: Final = 0.02
"""Greatest relative error of a rounded value."""
TYPE: Final = pa.list_(pa.struct([("value", pa.float64()), ("times", pa.int64())]))
"""A distribution: values in order, each with the number of its occurrences."""

Array = np.ndarray[Any, Any]


def rounded(values: Array) -> Array:
    """Round values to powers of `RATIO`, of either sign."""
    magnitude = np.abs(values)
    power = np.rint(np.log(magnitude, out=np.zeros_like(magnitude), where=magnitude > 0) / math.log(RATIO))
    return np.where(magnitude > 0, np.copysign(np.power(RATIO, power), values), 0.0)


def of_values(groups: Array, count: int, values: Array) -> pa.Array:
    """Return the distribution of each group. `groups`: the group of each value, from 0 to `count` - 1; NaN is no
    value.
    """
    known = ~np.isnan(values)
    return _of(groups[known], count, rounded(values[known]), np.ones(np.count_nonzero(known), np.int64))


def merged(groups: Array, count: int, distributions: pa.Array) -> pa.Array:
    """Return the distribution of each group. `groups`: the group of each distribution."""
    lengths = np.diff(np.asarray(distributions.offsets))
    pairs = distributions.flatten()
    values, times = (np.asarray(pairs.field(name)) for name in ("value", "times"))
    return _of(np.repeat(groups, lengths), count, values, times)


def _of(groups: Array, count: int, values: Array, times: Array) -> pa.Array:
    """Add up the occurrences of equal values in each group."""
    order = np.lexsort((values, groups))
    groups, values, times = groups[order], values[order], times[order]
    differs = np.ones(len(groups), bool)
    differs[1:] = (np.diff(groups) != 0) | (np.diff(values) != 0)
    first = np.flatnonzero(differs)
    sums = np.add.reduceat(times, first) if len(first) else times
    pairs = pa.StructArray.from_arrays([pa.array(values[first]), pa.array(sums)], names=["value", "times"])
    offsets = np.searchsorted(groups[first], np.arange(count + 1))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pairs)
