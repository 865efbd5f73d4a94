"""How many there are of something at all processes of a node, in memory that they share
(`penstock.memory.shared_rows`).

Each row is for one thing of which there may be so many, and has its limit, and a number for each process that counts.
Of connections, channels and what is declared these are the acceptors and, last, the router; of what users have in hand
the shards, in memory of their own. What is taken is taken under a lock: a limit holds exactly, whoever asks at the same
time. A row whose numbers are all 0 is free. A thing that finds its set full is not counted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from penstock.memory import shared_rows
from penstock.memory.shared_rows import SharedRows, Use
from penstock.settings.values import NO_LIMIT

LIMIT_OCTETS = 8
NUMBER_OCTETS = 8


class SharedCounts:
    """The numbers, for one process of so many that count."""

    def __init__(self, rows: SharedRows, counting: int, index: int) -> None:
        self._rows = rows
        self._numbers = struct.Struct(f"{counting}Q")
        self._own = LIMIT_OCTETS + NUMBER_OCTETS * index

    @classmethod
    def of_process(cls) -> SharedCounts:
        """Those of one acceptor that is alone."""
        return cls(SharedRows.of_process(content(1)), 1, 0)

    @classmethod
    def open(cls, path: Path, counting: int, index: int) -> SharedCounts:
        """Those of a node; what an earlier life of this process has counted is forgotten. OSError or ValueError if
        there are none.
        """
        found = cls(SharedRows.open(path, content(counting)), counting, index)
        found._forget()
        return found

    @classmethod
    def look(cls, path: Path, counting: int) -> SharedCounts:
        """Those of a node, for who only looks. OSError or ValueError if there are none."""
        return cls(SharedRows.look(path, content(counting)), counting, 0)

    def take(self, name: str, own: int, limit: int, beyond: int = 0) -> bool:
        """One more, beside so many that this process has, unless there are as many as there may be: so many beyond the
        limit.
        """
        with self._rows.locked():
            at = self._rows.make(name, self._free)
            if at is None:
                return own < limit + beyond
            taken = self._others(at) + own < limit + beyond
            self._set(at, own + taken, limit)
            return taken

    def put(self, name: str, own: int, limit: int | None) -> None:
        """This process has so many, of so many that there may be; None: there is no limit."""
        with self._rows.locked():
            at = self._rows.make(name, self._free) if own else self._rows.find(name)
            if at is not None:
                self._set(at, own, NO_LIMIT if limit is None else limit)

    def total(self, name: str) -> int:
        """How many all processes have."""
        with self._rows.locked():
            at = self._rows.find(name)
            return 0 if at is None else sum(self._all(at))

    def near(self) -> Iterator[Use]:
        """The limits of which most is used (`Use.is_near`); takes no lock."""
        for at in self._rows.all():
            used = sum(self._all(at))
            limit = self._limit(at) if used else NO_LIMIT
            name = self._rows.name(at) if limit != NO_LIMIT else None
            if name is not None and (use := Use(*name, used, limit)).is_near:
                yield use

    def _free(self, ways: list[int]) -> int | None:
        """The first row of a set that counts nothing."""
        return next((at for at in ways if not any(self._all(at))), None)

    def _all(self, at: int) -> tuple[int, ...]:
        return self._numbers.unpack_from(self._rows.memory, at + LIMIT_OCTETS)

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
    """Octets of a row for so many processes that count."""
    return LIMIT_OCTETS + NUMBER_OCTETS * counting


def create(path: Path, counting: int) -> None:
    """Make the memory of a node, mode 0600. OSError if it is there, or cannot be made."""
    shared_rows.create(path, content(counting))
