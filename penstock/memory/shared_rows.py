"""Rows by name, in memory that processes share.

A row is found by the digest of its name (16 bytes), in a set of `WAYS` rows. Names lie behind all rows, so scanning the
rows touches none of them. Writers hold a lock on the file (flock(2)), which ends with a process that dies. Readers take
none: a process that is stopped while it reads blocks no other.
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

DIGEST_BYTES = 16
SETS = 2048
WAYS = 8
NAME = struct.Struct("H286s")
"""A name, preceded by its length in bytes; a kind, an owner and an AMQP name fit. A longer name is not kept."""

NEAR_PERCENT = 90
"""Percentage of a limit whose use counts as near."""


class Use(NamedTuple):
    """How much of a limit is used: the limit's name, its kind of owner (a node, which has no name, a vhost, …), the
    owner's name, and the numbers.
    """

    limit: str
    whose: str
    name: str
    used: int
    number: int

    @property
    def is_near(self) -> bool:
        """Whether the use is near the limit, or at it."""
        return self.used > 0 and 100 * self.used >= NEAR_PERCENT * self.number


def row_name(limit: str, whose: str, name: str) -> str:
    """The name of a limit's row."""
    return f"{limit} {whose} {name}"


class SharedRows:
    """Rows with `content` bytes of content each, all 0 at first. Without a lock no other process changes them."""

    def __init__(self, memory: mmap.mmap, content: int, lock: int | None = None) -> None:
        self.memory = memory
        self._row = DIGEST_BYTES + content
        self._names = SETS * WAYS * self._row
        self._lock = lock

    @classmethod
    def of_process(cls, content: int) -> Self:
        """Rows private to this process."""
        return cls(mmap.mmap(-1, nbytes(content)), content)

    @classmethod
    def open(cls, path: Path, content: int) -> Self:
        """The rows of a file that `create` made. OSError or ValueError if there is none."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return cls(mmap.mmap(descriptor, nbytes(content)), content, descriptor)

    @classmethod
    def open_readonly(cls, path: Path, content: int) -> Self:
        """The rows of a file, for reading only."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return cls(mmap.mmap(descriptor, nbytes(content), access=mmap.ACCESS_READ), content)
        finally:
            os.close(descriptor)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock on the file until the end of the block."""
        if self._lock is None:
            yield
            return
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def find(self, name: str) -> int | None:
        """The offset of a row's content; None if there is no such row."""
        digest = _digest(_nbytes(name))
        for at in self._set(digest):
            if self.memory[at - DIGEST_BYTES : at] == digest:
                return at
        return None

    def make(self, name: str, choose: Callable[[list[int]], int | None]) -> int | None:
        """The offset of a row's content. A missing row is made in place of the one that `choose` picks from its set,
        and the content of that place stays; None if `choose` picks none.
        """
        found = self.find(name)
        if found is not None:
            return found
        key = _nbytes(name)
        digest = _digest(key)
        at = choose(list(self._set(digest)))
        if at is not None:
            self.memory[at - DIGEST_BYTES : at] = digest
            length = len(key) if len(key) <= NAME.size - 2 else 0
            NAME.pack_into(self.memory, self._name_at(at), length, key[:length])
        return at

    def all(self) -> Iterator[int]:
        """The offsets of the contents of all rows, used or not."""
        return iter(range(DIGEST_BYTES, self._names, self._row))

    def name(self, at: int) -> tuple[str, str, str] | None:
        """The parts of the name (`row_name`) of the row with its content at `at`; None if the row has no name, or is
        being renamed.
        """
        length, key = NAME.unpack_from(self.memory, self._name_at(at))
        key = key[:length]
        if not key or _digest(key) != self.memory[at - DIGEST_BYTES : at]:
            return None
        limit, whose, name = key.decode("utf-8", "surrogateescape").split(" ", 2)
        return limit, whose, name

    def _set(self, digest: bytes) -> range:
        begin = int.from_bytes(digest[:4], "big") % SETS * WAYS * self._row
        return range(begin + DIGEST_BYTES, begin + WAYS * self._row, self._row)

    def _name_at(self, at: int) -> int:
        return self._names + at // self._row * NAME.size


def _nbytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()


def nbytes(content: int) -> int:
    """The size in bytes of rows with `content` bytes each; only rows in use take up memory."""
    return SETS * WAYS * (DIGEST_BYTES + content + NAME.size)


def create(path: Path, content: int) -> None:
    """Make the file, mode 0600. OSError if it exists, or cannot be made."""
    with open(path, "xb", opener=private) as file:
        file.truncate(nbytes(content))
