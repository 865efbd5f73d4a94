"""The incarnations of shards that a process is connected to, in whatever order they are announced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.batch.arena import Borrower
from penstock.bus.shard_dialers import ShardDialers
from penstock.bus.turn_sockets import TurnSockets
from penstock.node.node import Node
from penstock.settings import Settings


def on_turn(*_: Any) -> None:
    raise AssertionError("nobody sends turns here")


@pytest.fixture
def dialers(tmp_path: Path) -> Iterator[ShardDialers]:
    settings = Settings.from_resolved({"shards": 2, "acceptors": 1, "data": tmp_path})
    node = Node(1, tmp_path, tmp_path / "gauges", "127.0.0.1", 5672, settings, 0)
    loop = asyncio.new_event_loop()
    dialers = ShardDialers(TurnSockets(loop, Borrower(1), lambda: None), node, b"acceptor.0.1")
    yield dialers
    for shard in range(2):
        dialers.leave(shard)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_a_life_is_met_once(dialers: ShardDialers) -> None:
    assert dialers[0] is None and not list(dialers)
    assert dialers.meet(0, 1, on_turn)
    first = dialers[0]
    assert not dialers.meet(0, 1, on_turn)
    assert dialers[0] is first and list(dialers) == [first]
    assert dialers.meet(0, 3, on_turn)
    assert dialers[0] is not first and dialers[1] is None


def test_an_earlier_life_is_not_met_any_more(dialers: ShardDialers) -> None:
    dialers.meet(0, 2, on_turn)
    assert not dialers.meet(0, 1, on_turn)


def test_a_death_is_news_once(dialers: ShardDialers) -> None:
    assert not dialers.lose(0, 1)
    dialers.meet(0, 1, on_turn)
    assert dialers.lose(0, 1)
    assert not dialers.lose(0, 1)
    dialers.meet(0, 2, on_turn)
    assert dialers.lose(0, 2)


def test_the_death_of_an_earlier_life_is_none_of_the_next_one(dialers: ShardDialers) -> None:
    dialers.meet(0, 2, on_turn)
    assert not dialers.lose(0, 1)
    assert dialers.lose(0, 2)


def test_a_death_that_was_missed_is_known_of_a_later_one(dialers: ShardDialers) -> None:
    dialers.meet(0, 1, on_turn)
    assert dialers.lose(0, 3)
