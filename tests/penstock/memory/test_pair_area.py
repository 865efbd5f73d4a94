"""Pairs in the gauges: bytes in flight, and the turns that the shard has processed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.memory.gauges import FINISHES, Gauges
from tests.penstock.memory.gauges_file import (
    ACCEPTORS,
    SHARDS,
)


@pytest.mark.parametrize("pair", [(-1, 0), (0, -1), (ACCEPTORS, 0), (0, SHARDS), (2**40, 2**40)])
def test_pairs_out_of_range(gauges: Gauges, pair: tuple[int, int]) -> None:
    for use in (gauges.pair_in_flight, gauges.pair_reset_sent):
        with pytest.raises(IndexError):
            use(*pair)
    for add in (gauges.pair_add_sent, gauges.pair_add_taken):
        with pytest.raises(IndexError):
            add(*pair, 1)


@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 1000))))
def test_in_flight_is_what_was_sent_and_not_taken(
    directory: Path, pair: tuple[Gauges, Gauges], steps: list[tuple[bool, int]]
) -> None:
    acceptor, shard = pair
    acceptor.pair_reset_sent(1, 1)
    sent = taken = 0
    for sends, count in steps:
        if sends:
            acceptor.pair_add_sent(1, 1, count)
            sent += count
        else:
            shard.pair_add_taken(1, 1, count)
            taken += count
        assert acceptor.pair_in_flight(1, 1) == shard.pair_in_flight(1, 1) == max(0, sent - taken)
    assert acceptor.pair_in_flight(0, 1) == acceptor.pair_in_flight(1, 0) == acceptor.pair_in_flight(2, 1) == 0


def test_resetting_a_pair_leaves_nothing_in_flight(gauges: Gauges) -> None:
    gauges.pair_add_sent(0, 1, 100)
    assert gauges.pair_in_flight(0, 1) == 100
    gauges.pair_reset_sent(0, 1)
    assert gauges.pair_in_flight(0, 1) == 0
    gauges.pair_add_sent(0, 1, 3)
    assert gauges.pair_in_flight(0, 1) == 3


def test_what_a_shard_is_doing(gauges: Gauges) -> None:
    gauges.pair_write_doing(2, 1, 3, 78, 5)
    assert gauges.pair_read_doing(2, 1, 3, 78) == 5
    assert gauges.pair_read_doing(2, 1, 4, 78) == 0, "of another life of the acceptor"
    assert gauges.pair_read_doing(2, 1, 3, 79) == 0, "of another turn"
    assert gauges.pair_read_doing(1, 1, 3, 78) == 0
    gauges.pair_write_doing(2, 1, 3, 78, 0)
    assert gauges.pair_read_doing(2, 1, 3, 78) == 0
    gauges.pair_write_doing(2, 1, 256 + 3, 2**32 + 78, FINISHES - 1)
    assert gauges.pair_read_doing(2, 1, 256 + 3, 2**32 + 78) == FINISHES - 1
    gauges.pair_write_doing(2, 1, 3, 78, FINISHES)
    assert gauges.pair_read_doing(2, 1, 3, 78) == 0, "there is no room for that ordinal"


def test_a_shard_says_that_it_finishes_its_turn(gauges: Gauges) -> None:
    for incarnation in 6, 7:
        gauges.pair_write_finishing(2, 1, 3, 78, incarnation)
        assert gauges.pair_read_doing(2, 1, 3, 78) == FINISHES + incarnation % 2
