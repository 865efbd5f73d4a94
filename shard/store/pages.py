"""The pages of an LMDB file (format of 0.9), read without a map, so that no damage can end the process.

A page is believed only within its bounds. `damaged` counts pages and values that could not be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import NamedTuple, Self

PAGE = 4096
_HEADER = Struct("<QHHHH")
"""Number, padding, flags, begin and end of the free part."""
_BRANCH, _LEAF, _META = 1, 2, 8
_POINTER = Struct("<H")
_NODE = Struct("<HHHH")
_BIG, _DATABASE = 1, 2
_NUMBER = Struct("<Q")
_STATE = Struct("<IIQQ40xQ40xQQQ")
"""After the header of the first two pages: magic, version, address, size of the map, root of the free list, root of the
databases, last page, transaction.
"""
_MAGIC = 0xBEEFC0DE
_ROOT = 40
_NONE = (1 << 64) - 1


class Value(NamedTuple):
    """The position of a value."""

    offset: int
    size: int


class Pages:
    """The file of an environment. Raises OSError if it cannot be read."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.count = -(-os.fstat(self._file).st_size // PAGE)
        self.damaged = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def read(self, value: Value) -> bytes:
        """The bytes of a value, as far as the file has them."""
        return os.pread(self._file, value.size, value.offset)

    def databases(self) -> dict[str, int]:
        """The first page of each database that is not empty, in the newest readable state."""
        states = self._states()
        self.damaged += 2 - len(states)
        for _, _, root, _ in states:
            found = {
                key.decode("ascii", "replace"): _NUMBER.unpack(self.read(value)[_ROOT : _ROOT + 8])[0]
                for key, value in self.walk(root)
                if value.size == _ROOT + 8
            }
            if found:
                return {name: root for name, root in found.items() if root != _NONE}
        return {}

    def check_free(self) -> None:
        """Check the list of free pages, which would be overwritten. Raises ValueError if it cannot be right."""
        for _, root, _, last in self._states()[:1]:
            free: set[int] = set()
            for _, value in self.walk(root) if root != _NONE else ():
                data = self.read(value)
                count = _NUMBER.unpack_from(data)[0] if len(data) >= _NUMBER.size else _NONE
                if len(data) < value.size or value.size < _NUMBER.size * (count + 1):
                    raise ValueError("a list of free pages is damaged")
                pages = [number for (number,) in _NUMBER.iter_unpack(data[8 : 8 * (count + 1)])]
                if any(not 1 < number <= last for number in pages) or pages != sorted(set(pages) - free, reverse=True):
                    raise ValueError("a list of free pages is damaged")
                free.update(pages)
        if self.damaged:
            raise ValueError("the free pages cannot be read")

    def _states(self) -> list[tuple[int, int, int, int]]:
        """Transaction, root of the free list, root of the databases and last page of each state, the newest first."""
        states = []
        for number in (0, 1):
            page = self._page(number)
            if page is not None:
                magic, _, _, _, free, root, last, transaction = _STATE.unpack_from(page, _HEADER.size)
                if magic == _MAGIC:
                    states.append((transaction, free, root, last))
        return sorted(states, reverse=True)

    def walk(self, root: int, seen: set[int] | None = None) -> Iterator[tuple[bytes, Value]]:
        """Keys and values below a page, in order, as far as they can be read; no page is visited twice (`seen`)."""
        seen = set() if seen is None else seen
        page = self._page(root)
        flags = 0 if page is None else _HEADER.unpack_from(page)[2]
        if page is None or not flags & (_BRANCH | _LEAF) or root in seen:
            self.damaged += 1
        elif flags & _LEAF:
            yield from self._values(root, page)
        else:
            for low, high, top, _ in (_NODE.unpack_from(page, at) for at in self._nodes(page)):
                seen.add(root)
                yield from self.walk(low | high << 16 | top << 32, seen)

    def scan(self) -> Iterator[tuple[bytes, Value]]:
        """Keys and values of all pages that look as if they had some, older ones too."""
        damaged = self.damaged
        for number in range(self.count):
            page = self._page(number)
            if page is not None and _HEADER.unpack_from(page)[2] & (_LEAF | _BRANCH | _META) == _LEAF:
                yield from self._values(number, page)
        self.damaged = damaged

    def _page(self, number: int) -> bytes | None:
        if number >= self.count:
            return None
        page = os.pread(self._file, PAGE, number * PAGE)
        return page if len(page) == PAGE and _HEADER.unpack_from(page)[0] == number else None

    def _nodes(self, page: bytes) -> Iterator[int]:
        """The offsets of the nodes of a page."""
        _, _, _, lower, _ = _HEADER.unpack_from(page)
        if not _HEADER.size <= lower <= PAGE:
            self.damaged += 1
            return
        for at in range(_HEADER.size, lower - 1, _POINTER.size):
            (node,) = _POINTER.unpack_from(page, at)
            if lower <= node <= PAGE - _NODE.size:
                yield node
            else:
                self.damaged += 1

    def _values(self, number: int, page: bytes) -> Iterator[tuple[bytes, Value]]:
        for at in self._nodes(page):
            low, high, flags, key_size = _NODE.unpack_from(page, at)
            begin, size = at + _NODE.size + key_size, low | high << 16
            key = page[begin - key_size : begin]
            if flags & _BIG and begin + 8 <= PAGE:
                (first,) = _NUMBER.unpack_from(page, begin)
                value = Value(first * PAGE + _HEADER.size, size)
            else:
                value = Value(number * PAGE + begin, size if begin + size <= PAGE else _NONE)
            if value.offset + value.size <= self.count * PAGE:
                yield key, value
            else:
                self.damaged += 1
