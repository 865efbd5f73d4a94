"""Rows of settlements: the one form that acceptors write and shards read."""

from __future__ import annotations

import struct

import pytest

from acceptor.links.unacked_cy import Settlements, UnackedTags
from penstock.batch.consumer_ids import consumer_id
from penstock.batch.settlement_rows import (
    OF_COUNT,
    OF_KIND,
    OF_SEQUENCE,
    SETTLE_ACK,
    SETTLE_REJECT,
    SETTLE_REQUEUE,
    SETTLED_ROW,
)

CONSUMER = consumer_id(7, 3)


@pytest.mark.parametrize("kind", [SETTLE_ACK, SETTLE_REQUEUE, SETTLE_REJECT])
def test_a_written_row_has_its_fields_where_the_constants_say(kind: int) -> None:
    tags = UnackedTags()
    tags.deliver(CONSUMER, 11, 5, 0, 100)
    builders = [Settlements() for _ in range(4)]
    tags.settle_all(kind, builders)
    row = bytes(builders[3].finish())
    assert len(row) == SETTLED_ROW
    assert struct.unpack_from("<Q", row) == (CONSUMER,)
    assert struct.unpack_from("<Q", row, OF_SEQUENCE) == (11,)
    assert struct.unpack_from("<I", row, OF_COUNT) == (5,)
    assert struct.unpack_from("<I", row, OF_KIND) == (kind,)
