"""The state of a queue beside its contents: depth, limits, window, expiry, and what it drops."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.joined import Node, open_channel
from tests.shard.steps import drain, publish, recount


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def test_a_ring_drops_the_oldest(node: Node) -> None:
    node.declare("q", **{"x-max-length": 3, "x-overflow": "ring"})
    client = open_channel(node)
    publish(client, "q", *(b"%d" % number for number in range(7)))
    assert drain(client, "q") == [b"4", b"5", b"6"]
    recount(node, "q")
