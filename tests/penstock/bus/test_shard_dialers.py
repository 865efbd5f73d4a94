"""The connections to incarnations of shards."""

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


def test_an_incarnation_is_met_once(dialers: ShardDialers) -> None:
    assert dialers[0] is None and not list(dialers)
    assert dialers.meet(0, 1, on_turn)
    first = dialers[0]
    assert not dialers.meet(0, 1, on_turn)
    assert dialers[0] is first and list(dialers) == [first]
    assert dialers.meet(0, 3, on_turn)
    assert dialers[0] is not first and dialers[1] is None


def test_a_death_is_news_once(dialers: ShardDialers) -> None:
    dialers.meet(0, 1, on_turn)
    assert dialers.lose(0, 1)
    assert not dialers.lose(0, 1)
