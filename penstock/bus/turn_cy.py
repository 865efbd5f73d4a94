# cython: annotation_typing=False
"""A turn under construction (see `penstock.bus`).

Compiled, as each batch costs each process one: a lone message pays for it alone.
"""

from __future__ import annotations

from typing import Any

from penstock.batch.arena import Loan
from penstock.batch.batch_cy import Batch
from penstock.bus.operations_cy import Operation, to_wires
from penstock.bus.packing import packer

IN_HEAD = 4096
"""Parts of this size (bytes) or larger are frames of their own."""

_heads = packer()
"""Packs the heads of turns and reuses its buffer: only loops make turns, while `pack` may run in threads."""


def loan_of(part: Any) -> Loan | None:
    """The loan that a part lies in; None if it does not lie in an arena."""
    owner = part.obj if isinstance(part, memoryview) else None
    return owner if isinstance(owner, Loan) else None


class Turn:
    """A turn under construction: operations and the parts that they point to.

    `receiver` is the index of the shard or acceptor that parts in an arena are lent to (None: they are not lent),
    `lent` the bytes that were lent.
    """

    def __init__(self, receiver: int | None = None) -> None:
        self.receiver = receiver
        self.lent = 0
        self.operations: list[Operation] = []
        self.parts: list[Any] = []
        # Keeps the batch alive: else another object could get its id before the turn ends.
        self.placed: dict[tuple[int, int, int], tuple[int, Batch]] = {}

    def add(self, operation: Operation) -> int:
        """Append an operation; return its index."""
        self.operations.append(operation)
        return len(self.operations) - 1

    def reserve(self) -> int:
        """Append a place for an operation that is known only when the turn is complete; return its index."""
        self.operations.append(())
        return len(self.operations) - 1

    def place(self, part: Any) -> int:
        """Add one part; return its index."""
        self.parts.append(part)
        return len(self.parts) - 1

    def place_batch(self, batch: Batch, first: int, count: int) -> int:
        """Add rows and contents of a range of a batch, only once for repeated calls; return the index of the rows."""
        key = (id(batch), first, count)
        known = self.placed.get(key)
        if known is not None:
            return known[0]
        rows, contents = batch.slices(first, count)
        self.parts += (rows, contents)
        part = len(self.parts) - 2
        self.placed[key] = (part, batch)
        return part

    def frames(self, turn: int, version: int, last_report: int = 0) -> list[Any]:
        """The multipart: the head, then the parts that are too large for the head and cannot be lent."""
        places: list[Any] = []
        apart: list[Any] = []
        large = 0
        for part in self.parts:
            if len(part) < IN_HEAD:
                places.append(part)
                continue
            large += 1
            if self.receiver is not None and (loan := loan_of(part)) is not None:
                places.append(loan.lend(part, self.receiver))
                self.lent += len(part)
            else:
                places.append(None)
                apart.append(part)
        return [_heads.pack([turn, version, last_report, to_wires(self.operations), places, large]), *apart]
