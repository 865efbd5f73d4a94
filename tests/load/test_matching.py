"""The course of matching: one small run with a real broker for each kind of bindings."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from load.matching import KINDS, batch, bind, growth
from load.node import LocalNode
from load.publisher import Publisher
from penstock.amqp.tables_cy import decode_table


@pytest.mark.parametrize("kind", KINDS)
def test_bindings_differ(kind: str) -> None:
    """All bindings of a kind are distinct."""
    assert len({*KINDS[kind].bindings(1000)}) == 1000


@pytest.mark.parametrize("kind", KINDS)
def test_tables_are_tables(kind: str) -> None:
    for key, headers in itertools.islice(KINDS[kind].bindings(10), 10):
        assert len(key.split(".")) <= 32
        if headers:
            assert decode_table(headers, 0, len(headers))[1] == len(headers)


@pytest.mark.broker
@pytest.mark.parametrize("kind", KINDS)
def test_all_is_confirmed(tmp_path: Path, kind: str) -> None:
    with LocalNode(tmp_path, "--acceptors", "1", "--shards", "1") as node:
        bind(node.target, KINDS[kind], 50)
        assert all(seconds > 0 for seconds in growth(node.target, KINDS[kind]))
        publisher = Publisher(node.target)
        assert batch(publisher, [("a.b", b"")] * 10) > 0 and not publisher.window
        publisher.wire.close()
