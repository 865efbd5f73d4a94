"""Rows of settlements, as acceptors send them to shards: 24 bytes each, little-endian.

    0   8  the consumer's id on the bus (`penstock.batch.consumer_ids`)
    8   8  sequence number of the first message in its queue
    16  4  number of messages
    20  4  kind: SETTLE_ACK, SETTLE_REQUEUE or SETTLE_REJECT

Writer: `acceptor.links.unacked_cy.Settlements`. Readers: `shard.queue.consumer_cy.apply_rows`, and
`shard.serving.leases`. settlement_rows.pxd has the same constants for compiled modules.
"""

from __future__ import annotations

from struct import Struct

SETTLED_ROW = 24
OF_SEQUENCE = 8
OF_COUNT = 16
OF_KIND = 20

SETTLE_ACK = 0
SETTLE_REQUEUE = 1
SETTLE_REJECT = 2

ROW = Struct("<qqII")
