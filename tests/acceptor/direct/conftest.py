"""A simulated node with two shards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulator.joined.node import Node


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(shards=2) as node:
        yield node
