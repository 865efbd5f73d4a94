# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""Frames for whole ranges of messages in one pass (AMQP 0-9-1, 4.2.3 and 4.2.6).

Data for a connection is gathered in an `Output`: a list of buffers, to be written in order. Small parts are copied into
the last buffer; a large body is a reference into its batch.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from penstock.batch.batch_cy import ENTRY_SIZE, Batch
    from penstock.batch.pointers import (
        address_of_bytearray,
        address_of_bytes,
        copy,
        get16,
        get32,
        resize,
        store16,
        store32,
        store64,
    )

    METHOD, HEADER, BODY, END = 1, 2, 3, 0xCE
    # A body of this size or larger is not copied: below, an extra buffer in a gathered write costs more than the copy.
    BY_REFERENCE = 16384
    # Up to this size a buffer is allocated at its final size; beyond, it grows.
    FORESEEN = 1048576

DELIVER = b"\x00\x3c\x00\x3c"
GET_OK = b"\x00\x3c\x00\x47"
RETURN = b"\x00\x3c\x00\x32"


class Output:
    """Data waiting to be written to one socket; `size` counts its bytes. `pops` have taken `popped` bytes before."""

    def __init__(self) -> None:
        self.chunks: list[bytearray | memoryview] = []
        self.chunk = bytearray()
        self.used = 0
        self.size = 0
        self.pops = 0
        self.popped = 0

    def write(self, data: bytes) -> None:
        """Append bytes as they are."""
        at = self.reserve(len(data))
        copy(address_of_bytearray(self.chunk), at, address_of_bytes(data), 0, len(data))

    def reserve(self, nbytes: int) -> int:
        """Make room at the end of the last buffer; return the room's position."""
        at = self.used
        if at + nbytes > len(self.chunk):
            resize(self.chunk, max(2 * len(self.chunk), at + nbytes, 512))
        self.used += nbytes
        self.size += nbytes
        return at

    def foresee(self, nbytes: int, count: int) -> int:
        """Make room at once for `nbytes` bytes of `count` messages, if none of the messages need be large."""
        if count > 1 and nbytes < FORESEEN and self.used + nbytes > len(self.chunk):
            resize(self.chunk, self.used + nbytes)
        return 0

    def refer(self, part: memoryview) -> int:
        """Append a buffer without copying it."""
        resize(self.chunk, self.used)
        self.chunks.append(self.chunk)
        self.chunks.append(part)
        self.chunk = bytearray()
        self.used = 0
        self.size += len(part)
        return 0

    def pop_chunks(self) -> list[bytearray | memoryview]:
        """The buffers to write, in order; the output is empty afterwards."""
        chunks = self.chunks
        if self.used:
            resize(self.chunk, self.used)
            chunks.append(self.chunk)
        self.chunks = []
        self.chunk = bytearray()
        self.used = 0
        self.pops += 1
        self.popped += self.size
        self.size = 0
        return chunks

    def contents(
        self,
        channel: int,
        prefix: bytes,
        first_tag: int,
        redelivered: bool,
        suffix: bytes,
        batch: Batch,
        first: int,
        count: int,
        frame_max: int,
    ) -> None:
        """Append `count` messages of a batch from row `first`, each as method, header and body frames.

        The method's payload is `prefix`, then, if `first_tag` is not 0, the message's delivery tag (counting up from
        it) and the redelivered bit, then exchange and routing key, then `suffix`: enough for deliver, get-ok and
        return. `frame_max` includes the 8 bytes around a payload; 0 is no limit.
        """
        numbered = first_tag != 0
        prefix_size = len(prefix)
        suffix_size = len(suffix)
        base = batch.base()
        fixed = prefix_size + suffix_size + (9 if numbered else 0)
        most = min(frame_max - 8, BY_REFERENCE - 1) if frame_max else BY_REFERENCE - 1
        self.foresee(batch.nbytes(first, count) + count * (24 + fixed), count)
        for i in range(count):
            row = (first + i) * ENTRY_SIZE
            start = get32(batch.entry, row) - base
            address_size = get16(batch.entry, row + 4)
            header_size = get32(batch.entry, row + 8)
            body_size = get32(batch.entry, row + 12)
            method_size = fixed + address_size
            in_place = 0 < body_size <= most
            at = self.reserve(16 + method_size + header_size + (8 + body_size if in_place else 0))
            p = address_of_bytearray(self.chunk)
            p[at] = METHOD
            store16(p, at + 1, channel)
            store32(p, at + 3, method_size)
            copy(p, at + 7, address_of_bytes(prefix), 0, prefix_size)
            at += 7 + prefix_size
            if numbered:
                tag = first_tag + i
                store64(p, at, tag)
                p[at + 8] = 1 if redelivered else 0
                at += 9
            copy(p, at, batch.content, start, address_size)
            at += address_size
            copy(p, at, address_of_bytes(suffix), 0, suffix_size)
            at += suffix_size
            p[at] = END
            p[at + 1] = HEADER
            store16(p, at + 2, channel)
            store32(p, at + 4, header_size)
            copy(p, at + 8, batch.content, start + address_size, header_size)
            at += 8 + header_size
            p[at] = END
            if in_place:
                p[at + 1] = BODY
                store16(p, at + 2, channel)
                store32(p, at + 4, body_size)
                copy(p, at + 8, batch.content, start + address_size + header_size, body_size)
                p[at + 8 + body_size] = END
            elif body_size:
                self.body(channel, batch, start + address_size + header_size, body_size, frame_max)

    def body(self, channel: int, batch: Batch, start: int, body_size: int, frame_max: int) -> int:
        """Append a body that is large, or needs several frames."""
        offset = 0
        while offset < body_size:
            size = body_size - offset
            if frame_max and size > frame_max - 8:
                size = frame_max - 8
            by_reference = size >= BY_REFERENCE
            at = self.reserve(7 if by_reference else size + 8)
            p = address_of_bytearray(self.chunk)
            p[at] = BODY
            store16(p, at + 1, channel)
            store32(p, at + 3, size)
            if by_reference:
                self.refer(memoryview(batch.contents)[start + offset : start + offset + size])
                at = self.reserve(1)
                p = address_of_bytearray(self.chunk)
                p[at] = END
            else:
                copy(p, at + 7, batch.content, start + offset, size)
                p[at + 7 + size] = END
            offset += size
        return 0

    def acks(self, channel: int, first_tag: int, count: int, multiple: bool, negative: bool) -> None:
        """Append confirms for `count` publishes from `first_tag`: basic.ack, or basic.nack if `negative`.

        With `multiple` a single frame confirms everything up to the last of them.
        """
        if multiple:
            first_tag += count - 1
            count = 1
        for i in range(count):
            at = self.reserve(21)
            p = address_of_bytearray(self.chunk)
            p[at] = METHOD
            store16(p, at + 1, channel)
            store32(p, at + 3, 13)
            store16(p, at + 7, 60)
            store16(p, at + 9, 120 if negative else 80)
            store64(p, at + 11, first_tag + i)
            p[at + 19] = 1 if multiple else 0
            p[at + 20] = END
