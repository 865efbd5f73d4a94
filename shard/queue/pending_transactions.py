"""The parts of unfinished transactions in one queue (shard/transactions/)."""

from __future__ import annotations


class PendingTransactions:
    """The claims of transactions on a queue.

    `reserved` messages and `reserved_bytes` of bodies are room that it keeps for commits over several shards; they
    count as used. `undecided` is the number of prepared transactions that concern it, and `count` messages with `whole`
    bytes are the depth that these will add, or take away (negative).
    """

    __slots__ = ("count", "reserved", "reserved_bytes", "undecided", "whole")

    def __init__(self) -> None:
        self.reserved = self.reserved_bytes = 0
        self.undecided = self.count = self.whole = 0

    def reserve(self, count: int, nbytes: int) -> None:
        """Reserve room for messages and bytes of bodies."""
        self.reserved += count
        self.reserved_bytes += nbytes

    def release(self, count: int, nbytes: int) -> None:
        """Give reserved room back."""
        self.reserved -= count
        self.reserved_bytes -= nbytes
