"""Items that wait in a channel's inbox: publishes for room, methods for their turn.

Some methods do not wait behind publishes: settlements, and those that a held producer must be able to send. Two clients
that feed each other's full queues can go on acking, getting and cancelling.
"""

from __future__ import annotations

from typing import Any

from penstock.amqp.methods_cy import decode
from penstock.amqp.scan_cy import SettleRun
from penstock.amqp.spec import BY_NAME, MethodSpec
from penstock.batch.batch_cy import Batch

# Methods that overtake parked publishes: none can be meant to come after those (for parked methods see `means`).
OVERTAKES = frozenset(
    BY_NAME[name]
    for name in (
        "basic_qos", "basic_consume", "basic_cancel", "basic_cancel_ok", "basic_get", "basic_recover",
        "basic_recover_async", "channel_flow", "channel_flow_ok", "channel_close",
    )
)  # fmt: skip
# Methods that make, empty or delete a queue.
QUEUE_METHODS = ("queue_declare", "queue_purge", "queue_delete")
# The memory of an item in the inbox beside its content, in bytes: its objects, and a place in the inbox.
ITEM_BYTES = 192


class ParkedRun:
    """Publishes that wait for room: rows of a batch, and the confirm tag of the first of them (0 without confirms).

    `further` are routing keys beside the one in the address; `since` is when the run was parked, 0 before. `in_lane`:
    the run may go by the priority lanes of its queues.
    """

    __slots__ = ("address", "batch", "count", "first", "further", "in_lane", "mandatory", "nbytes", "since", "tag")

    def __init__(
        self, address: bytes, mandatory: bool, batch: Batch, first: int, count: int, tag: int,
        further: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.address = address
        self.mandatory = mandatory
        self.batch = batch
        self.first = first
        self.count = count
        self.tag = tag
        self.further = further
        self.since = 0.0
        self.in_lane = False
        self.nbytes = len(batch.entries) + len(batch.contents) + ITEM_BYTES

    def advance(self, count: int) -> None:
        """Drop the first `count` messages."""
        self.first += count
        self.count -= count
        if self.tag:
            self.tag += count


class ParkedMethod:
    """A method that waits its turn, still encoded: decoded it may take a hundred times the memory.

    `queue` is the one that a method of class queue names.
    """

    __slots__ = ("method", "nbytes", "payload", "queue")

    def __init__(self, method: MethodSpec, payload: bytes, queue: str = "") -> None:
        self.method = method
        self.payload = payload
        self.queue = queue
        self.nbytes = len(payload) + len(queue) + ITEM_BYTES

    @property
    def arguments(self) -> dict[str, Any]:
        """The decoded arguments."""
        return decode(self.payload)[1]


class ParkedSettlements(ParkedMethod):
    """Settlements within a transaction that wait their turn."""

    __slots__ = ("run",)

    def __init__(self, run: SettleRun) -> None:
        super().__init__(BY_NAME["basic_ack"], b"")
        self.run = run
        self.nbytes += len(run.rows)

    @property
    def arguments(self) -> dict[str, Any]:
        return {"run": self.run}


def means(method: MethodSpec, arguments: dict[str, Any], parked: ParkedMethod) -> bool:
    """Whether a method depends on a parked one, and must not overtake it: on its queue, or on its basic.consume."""
    if method.name in ("basic_consume", "basic_get") and parked.method.name in QUEUE_METHODS:
        return arguments["queue"] in ("", parked.queue) or not parked.queue
    return method.name in ("basic_qos", "basic_cancel") and parked.method.name == "basic_consume"
