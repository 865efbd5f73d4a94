# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The batch: the contents of many messages in two buffers, the unit that moves through penstock.

`contents` holds one record a message, one after the other:

    address  exchange and routing key as two short strings, as basic.publish carries them
    header   payload of the content header frame: class, weight, body size, flags, properties (AMQP 0-9-1, 4.2.6.1)
    body     the body, in one piece

`entries` holds one row of 16 bytes a message, little-endian:

    0   4  start of the record, counted from the start of the contents the batch was built with
    4   2  size of the address
    6   2  flags (below)
    8   4  size of the header
    12  4  size of the body

A slice of the rows and the matching slice of the contents is a batch again: starts are read relative to the first row.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from penstock.batch.pointers import (
        Held,
        address,
        address_of_bytearray,
        address_readonly,
        copy,
        get16,
        get32,
        put16,
        put32,
        resize,
        start_of,
    )

    ENTRY_SIZE = 16
    MESSAGE_WEIGHT = 64

# Flags of a row: what a queue needs to know without reading the properties.
PERSISTENT = 1
HAS_HEADERS = 2
HAS_EXPIRATION = 4
HAS_PRIORITY = 8
HAS_USER_ID = 16
# Further routing keys (headers CC and BCC); a request for a direct reply.
HAS_CC = 32
HAS_DIRECT_REPLY_TO = 64
# The expiration is not a plain number within bounds.
ODD_EXPIRATION = 128
# Resent after the death of a shard that may have delivered it.
SENT_AGAIN = 256


class Batch:
    """An immutable batch over two buffers, which it keeps alive. ValueError if their sizes cannot fit together."""

    def __init__(self, entries: Any, contents: Any) -> None:
        self.entries = entries
        self.contents = contents
        self.entries_held = Held(entries)
        self.contents_held = Held(contents)
        self.count = len(entries) // ENTRY_SIZE
        self.entry = start_of(self.entries_held)
        self.content = start_of(self.contents_held)
        if self.count * ENTRY_SIZE != len(entries):
            raise ValueError(f"{len(entries)} bytes are no whole number of rows")
        if self.count and self.end(self.count - 1) - self.base() > len(contents):
            raise ValueError(f"the rows reach beyond the {len(contents)} bytes of the contents")

    def __len__(self) -> int:
        return self.count

    def base(self) -> int:
        """The start of the first record in the numbering of the rows."""
        return get32(self.entry, 0) if self.count else 0

    def end(self, i: int) -> int:
        """The end of a record in the numbering of the rows."""
        at = i * ENTRY_SIZE
        size = get16(self.entry, at + 4)
        size += get32(self.entry, at + 8)  # one by one: each is 32 bits wide, the sum may be wider
        size += get32(self.entry, at + 12)
        return size + get32(self.entry, at)

    def body_bytes(self, first: int, count: int) -> int:
        """Bytes of the bodies of `count` messages from row `first`."""
        total = 0
        for i in range(first, first + count):
            total += get32(self.entry, i * ENTRY_SIZE + 12)
        return total

    def whole(self, first: int, count: int) -> int:
        """Whole bytes of `count` messages from row `first`: address, header and body of each, and MESSAGE_WEIGHT for
        its row and other memory. The parts of a range add up to the whole of the range.
        """
        if count <= 0:
            return 0
        return self.end(first + count - 1) - get32(self.entry, first * ENTRY_SIZE) + MESSAGE_WEIGHT * count

    def all_flags(self, first: int, count: int) -> int:
        """The flags that any of the messages has."""
        flags = 0
        for i in range(first, first + count):
            flags |= get16(self.entry, i * ENTRY_SIZE + 6)
        return flags

    def common_flags(self, first: int, count: int) -> int:
        """The flags that all of the messages (at least one) have."""
        flags = 0xFFFF
        for i in range(first, first + count):
            flags &= get16(self.entry, i * ENTRY_SIZE + 6)
        return flags

    def survey(self, first: int, count: int) -> tuple[int, int]:
        """`body_bytes` and `all_flags` in one pass."""
        total = 0
        flags = 0
        for i in range(first, first + count):
            total += get32(self.entry, i * ENTRY_SIZE + 12)
            flags |= get16(self.entry, i * ENTRY_SIZE + 6)
        return total, flags

    def flagged(self, flags: int) -> Batch:
        """The batch with a copy of its rows to which these flags are added."""
        entries = bytearray(self.entries)
        p = address_of_bytearray(entries)
        for i in range(self.count):
            put16(p, i * ENTRY_SIZE + 6, get16(p, i * ENTRY_SIZE + 6) | flags)
        return Batch(entries, self.contents)

    def fit(self, first: int, count: int, limit: int) -> int:
        """How many messages from row `first` have bodies of at most `limit` bytes together."""
        total = 0
        for i in range(first, first + count):
            total += get32(self.entry, i * ENTRY_SIZE + 12)
            if total > limit:
                return i - first
        return count

    def fit_whole(self, first: int, count: int, limit: int) -> int:
        """How many messages from row `first` count at most `limit` whole bytes together."""
        low = 0
        high = count
        while low < high:
            middle = (low + high + 1) >> 1
            if self.whole(first, middle) <= limit:
                low = middle
            else:
                high = middle - 1
        return low

    def slices(self, first: int, count: int) -> tuple[Any, Any]:
        """Rows and contents of `count` messages (at least one) from row `first`, without copying."""
        start = get32(self.entry, first * ENTRY_SIZE) - self.base()
        end = self.end(first + count - 1) - self.base()
        if count == self.count and end == len(self.contents):
            return self.entries, self.contents
        return (
            memoryview(self.entries)[first * ENTRY_SIZE : (first + count) * ENTRY_SIZE],
            memoryview(self.contents)[start:end],
        )

    def nbytes(self, first: int, count: int) -> int:
        """The length of both `slices` together."""
        start = get32(self.entry, first * ENTRY_SIZE)
        return self.end(first + count - 1) - start + count * ENTRY_SIZE

    def record(self, i: int) -> tuple[bytes, bytes, bytes]:
        """Address, header and body of one message, copied; for code paths that handle single messages."""
        if not 0 <= i < self.count:
            raise IndexError(i)
        at = i * ENTRY_SIZE
        start = get32(self.entry, at) - self.base()
        header = start + get16(self.entry, at + 4)
        body = header + get32(self.entry, at + 8)
        view = memoryview(self.contents)
        return (
            bytes(view[start:header]),
            bytes(view[header:body]),
            bytes(view[body : body + get32(self.entry, at + 12)]),
        )

    def flags(self, i: int) -> int:
        """The flags of one message."""
        if not 0 <= i < self.count:
            raise IndexError(i)
        return get16(self.entry, i * ENTRY_SIZE + 6)


class BatchBuilder:
    """Builds a batch by appending. The buffers double; `finish` cuts them to the used size.

    The contents may lie in a block of the arena instead (`block`, else None), as long as they fit.
    """

    def __init__(self) -> None:
        self.entries = bytearray()
        self.contents = bytearray()
        self.block: Any = None
        self.capacity = 0
        self.count = 0
        self.body_bytes = 0
        self.used = 0

    def __len__(self) -> int:
        return self.count

    def use(self, block: Any, nbytes: int) -> None:
        """Build the contents in a block (None: no block is free) if it has room for `nbytes` bytes."""
        if block is not None and nbytes <= len(block) and self.used == 0:
            self.block = self.block_view = block
            self.capacity = len(block)

    def room(self, nbytes: int) -> int:
        """Make room for `nbytes` more bytes."""
        if self.used + nbytes > self.capacity:
            self.grow(nbytes)
        return 0

    def grow(self, nbytes: int) -> int:
        """Enlarge the contents, moving them out of a block."""
        if self.block is not None:
            self.contents = bytearray(memoryview(self.block)[: self.used])
            self.block = self.block_view = None
        self.capacity = max(len(self.contents) * 2, self.used + nbytes, 1024)
        resize(self.contents, self.capacity)
        return 0

    def target(self) -> Any:
        """The buffer that the contents are written to."""
        return address_of_bytearray(self.contents) if self.block is None else address(self.block_view)

    def open_entry(self, address_size: int, header_size: int, body_size: int, flags: int) -> int:
        """Begin a record of the given sizes; its bytes follow by `write`."""
        if (self.count + 1) * ENTRY_SIZE > len(self.entries):
            resize(self.entries, max(2 * len(self.entries), 16 * ENTRY_SIZE))
        p = address_of_bytearray(self.entries)
        put32(p, self.count * ENTRY_SIZE, self.used)
        put16(p, self.count * ENTRY_SIZE + 4, address_size)
        put16(p, self.count * ENTRY_SIZE + 6, flags)
        put32(p, self.count * ENTRY_SIZE + 8, header_size)
        put32(p, self.count * ENTRY_SIZE + 12, body_size)
        self.count += 1
        self.body_bytes += body_size
        return 0

    def append(
        self,
        route: Any,
        address_size: int,
        source: Any,
        header: int,
        header_size: int,
        body: int,
        body_size: int,
        flags: int,
    ) -> int:
        """Append a message whose header and body are whole in `source`, at `header` and `body`."""
        self.open_entry(address_size, header_size, body_size, flags)
        self.room(address_size + header_size + body_size)
        p = self.target()
        at = self.used
        copy(p, at, route, 0, address_size)
        at += address_size
        copy(p, at, source, header, header_size)
        at += header_size
        copy(p, at, source, body, body_size)
        self.used = at + body_size
        return 0

    def write(self, source: Any, at: int, size: int) -> int:
        """Append bytes to the contents."""
        self.room(size)
        copy(self.target(), self.used, source, at, size)
        self.used += size
        return 0

    def add(self, address: bytes, header: bytes, body: bytes, flags: int) -> None:
        """Append one message; for code paths that handle single messages."""
        self.open_entry(len(address), len(header), len(body), flags)
        for part in (address, header, body):
            if part:
                self.write(address_readonly(part), 0, len(part))

    def extend(self, batch: Batch, first: int, count: int) -> None:
        """Append `count` messages from row `first` of a batch."""
        if count <= 0:
            return
        start = get32(batch.entry, first * ENTRY_SIZE)
        end = batch.end(first + count - 1)
        shift = self.used - start
        at = self.count * ENTRY_SIZE
        if at + count * ENTRY_SIZE > len(self.entries):
            resize(self.entries, max(2 * len(self.entries), at + count * ENTRY_SIZE))
        target = address_of_bytearray(self.entries)
        copy(target, at, batch.entry, first * ENTRY_SIZE, count * ENTRY_SIZE)
        for i in range(count):
            put32(target, at + i * ENTRY_SIZE, get32(target, at + i * ENTRY_SIZE) + shift)
        self.write(batch.content, start - batch.base(), end - start)
        self.count += count
        self.body_bytes += batch.body_bytes(first, count)

    def finish(self) -> Batch:
        """Return the finished batch; the builder must not be used afterwards."""
        resize(self.entries, self.count * ENTRY_SIZE)
        if self.block is not None:
            return Batch(self.entries, memoryview(self.block)[: self.used])
        resize(self.contents, self.used)
        return Batch(self.entries, self.contents)
