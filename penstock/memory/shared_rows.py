"""Rows by name, in memory that processes share.

A row is found by the digest of its name (16 octets), in a set of `WAYS` rows. Names lie behind all rows, so looking
through the rows touches none of them. What changes rows has a lock on the file meanwhile (flock(2)), which goes with a
process that dies. Who only looks takes none: a process that is stopped while it looks stops nobody.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Self

from penstock.files.directories import private

DIGEST_OCTETS = 16
SETS = 2048
WAYS = 8
NAME = struct.Struct("H286s")
"""A name, and how many octets it has: a kind, whose it is, and a name of AMQP fit in. A longer one is not kept."""

NEAR_PERCENT = 90
"""Of a limit: so much used is near."""


class Use(NamedTuple):
    """How much of a limit is used: its name, whose it is (a node's, which has no name, a vhost's, …), and numbers."""

    limit: str
    whose: str
    name: str
    used: int
    number: int

    @property
    def is_near(self) -> bool:
        return self.used > 0 and 100 * self.used >= NEAR_PERCENT * self.number


def row_name(limit: str, whose: str, name: str) -> str:
    """That of the row of a limit."""
    return f"{limit} {whose} {name}"


class SharedRows:
    """Rows of so many octets of content each, all 0 at first. Without a lock no other process changes them."""

    def __init__(self, memory: mmap.mmap, content: int, lock: int | None = None) -> None:
        self.memory = memory
        self._row = DIGEST_OCTETS + content
        self._names = SETS * WAYS * self._row
        self._lock = lock

    @classmethod
    def of_process(cls, content: int) -> Self:
        """Those of one process."""
        return cls(mmap.mmap(-1, octets(content)), content)

    @classmethod
    def open(cls, path: Path, content: int) -> Self:
        """Those that `create` has made. OSError or ValueError if there are none."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return cls(mmap.mmap(descriptor, octets(content)), content, descriptor)

    @classmethod
    def look(cls, path: Path, content: int) -> Self:
        """The same for who only looks."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return cls(mmap.mmap(descriptor, octets(content), access=mmap.ACCESS_READ), content)
        finally:
            os.close(descriptor)

    @contextmanager
    def locked(self) -> Iterator[None]:
        if self._lock is None:
            yield
            return
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def find(self, name: str) -> int | None:
        """Where the content of a row is; None if there is no such row."""
        digest = _digest(_octets(name))
        for at in self._set(digest):
            if self.memory[at - DIGEST_OCTETS : at] == digest:
                return at
        return None

    def make(self, name: str, choose: Callable[[list[int]], int | None]) -> int | None:
        """The same of a row that is made if it is not there, in the place of one that `choose` names of its set; None
        if that names none. What is in its content stays.
        """
        found = self.find(name)
        if found is not None:
            return found
        key = _octets(name)
        digest = _digest(key)
        at = choose(list(self._set(digest)))
        if at is not None:
            self.memory[at - DIGEST_OCTETS : at] = digest
            length = len(key) if len(key) <= NAME.size - 2 else 0
            NAME.pack_into(self.memory, self._name_at(at), length, key[:length])
        return at

    def all(self) -> Iterator[int]:
        """Where the content of each row is, in use or not."""
        return iter(range(DIGEST_OCTETS, self._names, self._row))

    def name(self, at: int) -> tuple[str, str, str] | None:
        """What the name of the row whose content is there was made of (`row_name`); None if it has none, or is about
        to get another one.
        """
        length, key = NAME.unpack_from(self.memory, self._name_at(at))
        key = key[:length]
        if not key or _digest(key) != self.memory[at - DIGEST_OCTETS : at]:
            return None
        limit, whose, name = key.decode("utf-8", "surrogateescape").split(" ", 2)
        return limit, whose, name

    def _set(self, digest: bytes) -> range:
        begin = int.from_bytes(digest[:4], "big") % SETS * WAYS * self._row
        return range(begin + DIGEST_OCTETS, begin + WAYS * self._row, self._row)

    def _name_at(self, at: int) -> int:
        return self._names + at // self._row * NAME.size


def _octets(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_OCTETS).digest()


def octets(content: int) -> int:
    """What rows of so many octets of content take in all; memory is behind those in use alone."""
    return SETS * WAYS * (DIGEST_OCTETS + content + NAME.size)


def create(path: Path, content: int) -> None:
    """Make the memory, mode 0600. OSError if it is there, or cannot be made."""
    with open(path, "xb", opener=private) as file:
        file.truncate(octets(content))
