"""Limits that are nearly used up, from the counts of a node's processes in files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ops.near_limits import near_limits
from ops.running import Running
from ops.status_tables import SHOWN_MOST, near_table
from penstock.memory import shared_counts, shared_rates
from penstock.memory.shared_counts import SharedCounts
from penstock.memory.shared_rates import Rate, SharedRates
from penstock.memory.shared_rows import row_name
from penstock.node.node import Node
from penstock.settings import Settings
from penstock.settings.limits import LimitSettings


@pytest.fixture
def node(tmp_path: Path) -> Running:
    """A node with its files, one acceptor and one shard: at most 10 queues, and a connection a second per address."""
    settings = Settings(
        acceptors=1, shards=1, data=tmp_path, max_queues=10, limits=LimitSettings(address_connection_rate=1)
    )
    node = Node(1, tmp_path, tmp_path / "gauges", "127.0.0.1", 5672, settings, clock_ahead_us=0)
    shared_counts.create(node.shared_counts, node.counting)
    shared_counts.create(node.shared_hands, node.shard_places)
    shared_rates.create(node.shared_rates)
    node.store()
    return Running.load(tmp_path)


def rows(node: Running, queues: int = 0) -> list[tuple[Any, ...]]:
    return [tuple(each.values()) for each in near_limits(node, queues)]


def drawn(near: list[dict[str, Any]]) -> str:
    console = Console(width=160)
    with console.capture() as capture:
        console.print(near_table(near))
    return capture.get()


def test_a_limit_is_near_from_nine_tenths_on(node: Running) -> None:
    assert rows(node, 8) == []
    assert rows(node, 9) == [("max_queues", "node", "", 9, 10)]


def test_all_files_are_read_and_the_most_used_limit_is_first(node: Running) -> None:
    SharedCounts.open(node.shared_counts, node.counting, 0).put(row_name("max-channels", "user", "\udcff"), 92, 100)
    SharedCounts.open(node.shared_hands, node.shard_places, 0).put(row_name("unacked", "user", "ann"), 95, 100)
    rate = Rate(row_name("connection-rate", "address", "10.0.0.1"), 1)
    assert SharedRates.open(node.shared_rates).acquire([rate], time.monotonic() + 3600) is None
    first, *others = rows(node, 9)
    assert first[:3] == ("connection-rate", "address", "10.0.0.1")
    assert others == [
        ("unacked", "user", "ann", 95, 100),
        ("max-channels", "user", "\ufffd", 92, 100),
        ("max_queues", "node", "", 9, 10),
    ]


def test_the_table_is_of_a_bounded_length_and_has_no_markup() -> None:
    row = {"limit": "max-channels", "whose": "user", "name": "[red]", "used": 9000, "number": 10_000}
    text = drawn([row] * SHOWN_MOST)
    assert text.count("│ max-channels │ user [red] │ 9,000 │  10,000 │") == SHOWN_MOST
    assert "more" not in text
    text = drawn([row] * (SHOWN_MOST + 3))
    assert text.count("user [red]") == SHOWN_MOST and "Limits nearly reached, and 3 more" in text


def test_a_node_that_is_gone_is_an_error(node: Running) -> None:
    node.shared_rates.unlink()
    with pytest.raises(OSError, match="No such file"):
        near_limits(node, 0)
