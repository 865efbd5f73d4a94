"""The gauges: one file in shared memory that every process of a node maps and reads without messages.

`docs/gauges.md` describes the layout, field by field, with the one writer of each and the order of stores and loads.
Each field has exactly one writing process. Single fields are loaded whole; records are read through a sequence lock,
so that all their fields come from one write. A record whose writer died in the middle of a write is returned as it
stands, with `torn` set; the next write of that writer's successor makes it whole.

Errors of every method: IndexError for an acceptor, shard, process or slot that does not exist; ValueError for closed
`Gauges`, for a write through ones opened for reading, for an unknown role; OverflowError for a number that is negative
or needs more than 64 bits. Only reading a torn record waits, for about 20 ms.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self, final

from penstock.memory.bucket_area import BucketArea
from penstock.memory.claim_area import ClaimArea
from penstock.memory.pair_area import FINISHES, PairArea
from penstock.memory.process_area import ProcessArea
from penstock.memory.queue_area import QueueArea
from penstock.memory.records import (
    DEAD,
    READY,
    STARTING,
    STATE_NAMES,
    UNSTARTED,
    Counters,
    FlowSums,
    Measures,
    Process,
    QueueCounters,
    QueueGauge,
    QueueMarks,
)
from penstock.memory.user_area import UserArea

__all__ = [
    "DEAD",
    "FINISHES",
    "READY",
    "STARTING",
    "STATE_NAMES",
    "UNSTARTED",
    "Counters",
    "FlowSums",
    "Gauges",
    "Measures",
    "Process",
    "QueueCounters",
    "QueueGauge",
    "QueueMarks",
]


@final
class Gauges(ProcessArea, PairArea, BucketArea, UserArea, ClaimArea, QueueArea):
    """One mapping of the file, with the methods of all its areas.

    `create` makes the file, `open` maps an existing one; `close` unmaps.
    """

    __slots__ = ()

    @classmethod
    def create(cls, path: str | Path, *, epoch: int, acceptors: int, shards: int, queues: int, pid: int) -> Self:
        """Make the file (mode 0600, sparse) with open gates, and map it; called by the supervisor only, before it
        starts other processes.

        `epoch` is the start of the node in microseconds since 1970, `pid` the process whose death makes the file stale.
        FileExistsError if the file exists, OSError if there is no room, ValueError for impossible counts.
        """
        gauges = super().create(path, epoch=epoch, acceptors=acceptors, shards=shards, queues=queues, pid=pid)
        try:
            for gate in range(shards):
                gauges.queue_open(gate, 0, "", "", epoch)
            gauges.complete()
        except BaseException:
            gauges.close()
            os.unlink(path)
            raise
        return gauges

    def queues_by_id(self) -> dict[int, QueueGauge]:
        """Return the gauges of all queues, each as it is at the moment."""
        read = (self.queue_read(slot) for slot in self.queue_slots() if slot >= self.shards)
        return {gauge.queue_id: gauge for gauge in read if gauge is not None}
