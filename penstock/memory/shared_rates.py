"""How often something may happen, over all processes of a node: buckets in memory that they share.

A bucket of a rate holds what comes of it in a second, and is kept as the moment at which it is full again (the virtual
scheduling of ITU-T I.371's generic cell rate algorithm): a row of `penstock.memory.shared_rows`. One that is full says
nothing and is free for another thing, so what has not happened for a second is forgotten. In a set in which none is
free the one that is full soonest makes way: memory is bounded, and the limit is less exact where thousands come at
once.

Moments are seconds of the machine's monotonic clock, which all processes have in common; the caller says which it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.memory import shared_rows
from penstock.memory.shared_rows import SharedRows, Use

SECOND = 1_000_000_000
CONTENT = 8


class Rate(NamedTuple):
    """So many a second of something (`penstock.memory.shared_rows.row_name`); 0 is never."""

    name: str
    number: int


class SharedRates:
    """The buckets of a node, as one process has them."""

    def __init__(self, rows: SharedRows) -> None:
        self._rows = rows

    @classmethod
    def of_process(cls) -> SharedRates:
        """Those of one process that is alone."""
        return cls(SharedRows.of_process(CONTENT))

    @classmethod
    def open(cls, path: Path) -> SharedRates:
        """Those of a node. OSError or ValueError if there are none."""
        return cls(SharedRows.open(path, CONTENT))

    @classmethod
    def look(cls, path: Path) -> SharedRates:
        """Those of a node, for who only looks. OSError or ValueError if there are none."""
        return cls(SharedRows.look(path, CONTENT))

    def take(self, rates: Sequence[Rate], now: float) -> Rate | None:
        """One of each, if all buckets have one; else nothing is taken, and the first that has none is the result."""
        moment = int(now * SECOND)
        with self._rows.locked():
            for rate in rates:
                if not self._has_one(rate, moment):
                    return rate
            for rate in rates:
                self._spend(rate, moment)
        return None

    def near(self, numbers: Mapping[str, int], now: float) -> Iterator[Use]:
        """The limits of which most is used (`Use.is_near`), by whose they are; takes no lock. `numbers` says how many
        each may have a second.
        """
        moment = int(now * SECOND)
        for at in self._rows.all():
            ahead = self._full_at(at) - moment
            name = self._rows.name(at) if ahead > 0 else None
            if name is not None and name[1] in numbers:
                number = numbers[name[1]]
                if (use := Use(*name, -(-ahead * number // SECOND), number)).is_near:
                    yield use

    def _has_one(self, rate: Rate, moment: int) -> bool:
        if rate.number < 1:
            return False
        at = self._rows.find(rate.name)
        return at is None or self._full_at(at) + SECOND // rate.number <= moment + SECOND

    def _spend(self, rate: Rate, moment: int) -> None:
        at = self._rows.find(rate.name)
        if at is None:
            at = self._rows.make(rate.name, lambda ways: min(ways, key=self._full_at))
            assert at is not None
            self._set(at, moment)
        self._set(at, max(self._full_at(at), moment) + SECOND // rate.number)

    def _full_at(self, at: int) -> int:
        moment: int = struct.unpack_from("Q", self._rows.memory, at)[0]
        return moment

    def _set(self, at: int, full_at: int) -> None:
        struct.pack_into("Q", self._rows.memory, at, full_at)


def create(path: Path) -> None:
    """Make the memory of a node, mode 0600. OSError if it is there, or cannot be made."""
    shared_rows.create(path, CONTENT)
