"""The tables of all answers, in the order of the documentation."""

from __future__ import annotations

from pipeline.jobs import (
    consumers,
    culprits,
    disobedience,
    episodes,
    held,
    hot_shards,
    marks,
    rebalance_inputs,
    shard_load,
    time_to_full,
    what_if,
)

TABLES = (
    episodes.TABLE,
    held.TABLE,
    disobedience.TABLE,
    culprits.TABLE,
    time_to_full.TABLE,
    marks.TABLE,
    what_if.STOPS,
    what_if.TABLE,
    what_if.CHANNELS,
    consumers.TABLE,
    shard_load.TABLE,
    hot_shards.TABLE,
    rebalance_inputs.TABLE,
)
