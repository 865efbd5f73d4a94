"""How many there are of something at all acceptors of a node, in memory that they share.

Each row is for one thing, by a digest of its name (16 octets), and has a number for each acceptor. What is read and
changed is read and changed under a lock on the file (flock(2)), which goes with a process that dies: a limit holds
exactly, whoever asks at the same time. Rows are in sets of `WAYS`; one whose numbers are all 0 is free. A thing that
finds its set full is not counted.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

DIGEST_OCTETS = 16
SETS = 2048
WAYS = 8


class SharedCounts:
    """The numbers, for one acceptor of so many. Without a lock no other process has them."""

    def __init__(self, memory: mmap.mmap, acceptors: int, index: int, lock: int | None = None) -> None:
        self._memory = memory
        self._numbers = struct.Struct(f"{acceptors}I")
        self._row_octets = DIGEST_OCTETS + self._numbers.size
        self._index = index
        self._lock = lock

    @classmethod
    def of_process(cls) -> SharedCounts:
        """Those of one acceptor that is alone."""
        return cls(mmap.mmap(-1, octets(1)), 1, 0)

    @classmethod
    def open(cls, path: Path, acceptors: int, index: int) -> SharedCounts:
        """Those of a node; what an earlier life of this acceptor has counted is forgotten. OSError or ValueError if
        there are none.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        found = cls(mmap.mmap(descriptor, octets(acceptors)), acceptors, index, descriptor)
        found._forget()
        return found

    def take(self, name: str, own: int, limit: int) -> bool:
        """One more, beside so many that this acceptor has, unless there are as many as there may be."""
        with self._locked():
            at = self._row(name, make=True)
            if at is None:
                return own < limit
            if self._others(at) + own >= limit:
                self._set(at, own)
                return False
            self._set(at, own + 1)
            return True

    def put(self, name: str, own: int) -> None:
        """This acceptor has so many."""
        with self._locked():
            at = self._row(name, make=own > 0)
            if at is not None:
                self._set(at, own)

    def total(self, name: str) -> int:
        """How many all acceptors have."""
        with self._locked():
            at = self._row(name, make=False)
            return 0 if at is None else sum(self._all(at))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._lock is None:
            yield
            return
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _row(self, name: str, *, make: bool) -> int | None:
        """Where the numbers of a thing are."""
        digest = blake2b(name.encode("utf-8", "surrogateescape"), digest_size=DIGEST_OCTETS).digest()
        begin = int.from_bytes(digest[:4], "big") % SETS * WAYS * self._row_octets
        free = None
        for at in range(begin, begin + WAYS * self._row_octets, self._row_octets):
            numbers = at + DIGEST_OCTETS
            if self._memory[at:numbers] == digest:
                return numbers
            if free is None and not any(self._numbers.unpack_from(self._memory, numbers)):
                free = at
        if free is None or not make:
            return None
        self._memory[free : free + DIGEST_OCTETS] = digest
        return free + DIGEST_OCTETS

    def _all(self, at: int) -> tuple[int, ...]:
        return self._numbers.unpack_from(self._memory, at)

    def _others(self, at: int) -> int:
        numbers = self._all(at)
        return sum(numbers) - numbers[self._index]

    def _set(self, at: int, own: int) -> None:
        struct.pack_into("I", self._memory, at + 4 * self._index, own)

    def _forget(self) -> None:
        with self._locked():
            for at in range(DIGEST_OCTETS, len(self._memory), self._row_octets):
                self._set(at, 0)


def octets(acceptors: int) -> int:
    return SETS * WAYS * (DIGEST_OCTETS + 4 * acceptors)


def create(path: Path, acceptors: int) -> None:
    """Make the memory of a node, mode 0600. OSError if it is there, or cannot be made."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(descriptor, octets(acceptors))
    finally:
        os.close(descriptor)
