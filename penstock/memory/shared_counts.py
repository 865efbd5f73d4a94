"""Counts of limited objects over all processes of a node, in memory that they share (`penstock.memory.shared_rows`).

Each row is for one limit: it has the limit, and a number for each process that counts. Connections, channels and
declared objects are counted by the acceptors and, last, the router; unacked messages of users by the shards, in a file
of their own. Counts are raised under a lock: a limit holds exactly, even with concurrent requests. A row whose numbers
are all 0 is free. An object whose set of rows is full is not counted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from penstock.memory import shared_rows
from penstock.memory.shared_rows import SharedRows, Use
from penstock.text.amounts import NO_LIMIT

LIMIT_BYTES = 8
NUMBER_BYTES = 8


class SharedCounts:
    """The counts, as the process with `index` of `counting` processes writes them."""

    def __init__(self, rows: SharedRows, counting: int, index: int) -> None:
        self._rows = rows
        self._numbers = struct.Struct(f"{counting}Q")
        self._own = LIMIT_BYTES + NUMBER_BYTES * index

    @classmethod
    def of_process(cls) -> SharedCounts:
        """The counts of a single acceptor."""
        return cls(SharedRows.of_process(content(1)), 1, 0)

    @classmethod
    def open(cls, path: Path, counting: int, index: int) -> SharedCounts:
        """The counts of a node, without those of an earlier incarnation of this process. OSError or ValueError if there
        are none.
        """
        found = cls(SharedRows.open(path, content(counting)), counting, index)
        found._forget()
        return found

    @classmethod
    def open_readonly(cls, path: Path, counting: int) -> SharedCounts:
        """The counts of a node, for reading only. OSError or ValueError if there are none."""
        return cls(SharedRows.open_readonly(path, content(counting)), counting, 0)

    def acquire(self, name: str, own: int, limit: int, beyond: int = 0) -> bool:
        """Count one more, given that this process has `own`, unless the total has reached the limit plus `beyond`;
        return whether it was counted.
        """
        with self._rows.locked():
            at = self._rows.make(name, self._free)
            if at is None:
                return own < limit + beyond
            taken = self._others(at) + own < limit + beyond
            self._set(at, own + taken, limit)
            return taken

    def put(self, name: str, own: int, limit: int | None) -> None:
        """Set this process's number; `limit` None: there is no limit."""
        with self._rows.locked():
            at = self._rows.make(name, self._free) if own else self._rows.find(name)
            if at is not None:
                self._set(at, own, NO_LIMIT if limit is None else limit)

    def total(self, name: str) -> int:
        """The number over all processes."""
        with self._rows.locked():
            at = self._rows.find(name)
            return 0 if at is None else sum(self._all(at))

    def near(self) -> Iterator[Use]:
        """The limits that are nearly used up (`Use.is_near`); takes no lock."""
        for at in self._rows.all():
            used = sum(self._all(at))
            limit = self._limit(at) if used else NO_LIMIT
            name = self._rows.name(at) if limit != NO_LIMIT else None
            if name is not None and (use := Use(*name, used, limit)).is_near:
                yield use

    def _free(self, ways: list[int]) -> int | None:
        """The first row of a set whose numbers are all 0."""
        return next((at for at in ways if not any(self._all(at))), None)

    def _all(self, at: int) -> tuple[int, ...]:
        return self._numbers.unpack_from(self._rows.memory, at + LIMIT_BYTES)

    def _limit(self, at: int) -> int:
        limit: int = struct.unpack_from("q", self._rows.memory, at)[0]
        return limit

    def _others(self, at: int) -> int:
        own: int = struct.unpack_from("Q", self._rows.memory, at + self._own)[0]
        return sum(self._all(at)) - own

    def _set(self, at: int, own: int, limit: int) -> None:
        struct.pack_into("q", self._rows.memory, at, limit)
        struct.pack_into("Q", self._rows.memory, at + self._own, own)

    def _forget(self) -> None:
        with self._rows.locked():
            for at in self._rows.all():
                struct.pack_into("Q", self._rows.memory, at + self._own, 0)


def content(counting: int) -> int:
    """Bytes of a row for `counting` processes."""
    return LIMIT_BYTES + NUMBER_BYTES * counting


def create(path: Path, counting: int) -> None:
    """Make the file of a node, mode 0600. OSError if it exists, or cannot be made."""
    shared_rows.create(path, content(counting))
