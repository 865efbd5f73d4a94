"""The incarnations of shards that a process knows, in whatever order they are announced."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.bus.shard_incarnations import ShardIncarnations, started
from penstock.memory.gauges import DEAD, READY, Gauges


@pytest.fixture
def known() -> ShardIncarnations:
    return ShardIncarnations(2)


def test_an_incarnation_is_met_once(known: ShardIncarnations) -> None:
    assert known.met(0) == 0
    assert known.meet(0, 1)
    assert not known.meet(0, 1)
    assert known.meet(0, 3)
    assert (known.met(0), known.met(1)) == (3, 0)


def test_an_earlier_incarnation_is_not_met_any_more(known: ShardIncarnations) -> None:
    known.meet(0, 2)
    assert not known.meet(0, 1)
    assert known.met(0) == 2


def test_a_death_is_news_once(known: ShardIncarnations) -> None:
    assert not known.lose(0, 1)
    known.meet(0, 1)
    assert known.lose(0, 1)
    assert not known.lose(0, 1)
    known.meet(0, 2)
    assert known.lose(0, 2)


def test_the_death_of_an_earlier_incarnation_is_none_of_the_next_one(known: ShardIncarnations) -> None:
    known.meet(0, 2)
    assert not known.lose(0, 1)
    assert known.lose(0, 2)


def test_a_death_that_was_missed_is_known_of_a_later_one(known: ShardIncarnations) -> None:
    known.meet(0, 1)
    assert known.lose(0, 3)


def test_the_gauges_have_the_shards_that_were_started(tmp_path: Path) -> None:
    with Gauges.create(tmp_path / "g", epoch=1, acceptors=1, shards=3, queues=1, pid=os.getpid()) as gauges:
        gauges.process_write("shard", 1, pid=7, incarnation=4, state=READY, started_us=0, restarts=3)
        gauges.process_write("shard", 2, pid=0, incarnation=2, state=DEAD, started_us=0, restarts=1)
        assert list(started(gauges)) == [(1, 4), (2, 2)]
