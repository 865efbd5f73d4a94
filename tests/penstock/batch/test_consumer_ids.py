"""Ids of consumers: a number, and the index of a shard, which may change."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from penstock.batch import consumer_ids, settlement_rows
from penstock.batch.consumer_ids import GETS, MOST_SHARDS, at_shard, consumer_id, shard_of

numbers = st.integers(0, 2**53)
shards = st.integers(0, MOST_SHARDS)
"""Indexes of shards, and the one that stands for none."""


@given(numbers, shards, shards)
def test_an_id_moves_to_another_shard_and_keeps_its_number(number: int, shard: int, other: int) -> None:
    id = consumer_id(number, shard)
    assert shard_of(id) == shard
    assert at_shard(id, other) == consumer_id(number, other)
    assert at_shard(at_shard(id, other), shard) == id


@given(numbers, shards, shards)
def test_the_mark_of_gets_survives_a_move(number: int, shard: int, other: int) -> None:
    id = GETS | consumer_id(number, shard)
    assert at_shard(id, other) & GETS and shard_of(id) == shard


def test_the_constants_of_compiled_modules_are_those_of_plain_ones() -> None:
    for module in consumer_ids, settlement_rows:
        declared = Path(module.__file__).with_suffix(".pxd").read_text()
        constants = re.findall(r"^    (\w+) = (\d+)$", declared, re.MULTILINE)
        assert constants
        for name, value in constants:
            assert getattr(module, name) == int(value), name
