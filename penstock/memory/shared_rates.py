"""Rate limits over all processes of a node: token buckets in memory that they share.

A bucket holds as many tokens as its rate admits in a second. It is stored as the moment at which it is full again (the
virtual scheduling of ITU-T I.371's generic cell rate algorithm), in a row of `penstock.memory.shared_rows`. A full
bucket carries no information and is free for another rate, so a rate unused for a second is forgotten. In a set without
a free bucket, the one that is full soonest is replaced: memory is bounded, and limits are less exact when thousands of
rates are in use at once.

Moments are seconds of the machine's monotonic clock, which all processes share; the caller passes the current one.
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
    """A rate limit, named by `penstock.memory.shared_rows.row_name`: `number` per second; 0 is never."""

    name: str
    number: int


class SharedRates:
    """The buckets of a node, as one process maps them."""

    def __init__(self, rows: SharedRows) -> None:
        self._rows = rows

    @classmethod
    def of_process(cls) -> SharedRates:
        """The buckets of a single process."""
        return cls(SharedRows.of_process(CONTENT))

    @classmethod
    def open(cls, path: Path) -> SharedRates:
        """The buckets of a node. OSError or ValueError if there are none."""
        return cls(SharedRows.open(path, CONTENT))

    @classmethod
    def open_readonly(cls, path: Path) -> SharedRates:
        """The buckets of a node, for reading only. OSError or ValueError if there are none."""
        return cls(SharedRows.open_readonly(path, CONTENT))

    def acquire(self, rates: Sequence[Rate], now: float) -> Rate | None:
        """Take a token of each rate, if all have one; else take none and return the first rate that lacks one."""
        moment = int(now * SECOND)
        with self._rows.locked():
            for rate in rates:
                if not self._has_one(rate, moment):
                    return rate
            for rate in rates:
                self._spend(rate, moment)
        return None

    def near(self, numbers: Mapping[str, int], now: float) -> Iterator[Use]:
        """The rates near their limits (`Use.is_near`); takes no lock. `numbers`: the limit per second, by kind of
        owner.
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
    """Make the file of a node, mode 0600. OSError if it exists, or cannot be made."""
    shared_rows.create(path, CONTENT)
