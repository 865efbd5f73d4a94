# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""What a queue acts on in the properties of messages, read from rows of a batch: expiration, priority, and the delay
among the headers (AMQP 0-9-1, 4.2.5.5 and 4.2.6.1).

For messages whose row is flagged to have them. What cannot be read counts as absent: malformed properties were refused
before they came here.
"""

from __future__ import annotations

from typing import Any

import cython

from penstock.amqp.properties import PROPERTIES_AT, decode_some
from router.model.delaying import delay_of

if not cython.compiled:
    from penstock.batch.batch_cy import Batch
    from penstock.batch.pointers import get16, get32, load16, load32

    ENTRY_SIZE = 16
    OTHERWISE = -1


def property_at(p: Any, at: int, end: int, wanted: int) -> int:
    """The offset of the property with flag `wanted` (priority or expiration) in a content header; -1 if it is
    absent.
    """
    if end - at < 14:
        return -1
    flags = load16(p, at + 12)
    if not flags & wanted:
        return -1
    at += 14
    bit = 0x8000
    while bit != wanted:
        if flags & bit:
            if bit == 0x2000:  # the table of headers
                if end - at < 4:
                    return -1
                at += 4 + load32(p, at)
            elif bit == 0x1000 or bit == 0x0800:  # delivery mode and priority
                at += 1
            else:
                if at >= end:
                    return -1
                at += 1 + p[at]
        bit >>= 1
    return at if at < end else -1


def expiration_ms(batch: Batch, row: int) -> int:
    """The expiration of a message in milliseconds, at most ten years; -1 for none."""
    p = batch.content
    at = get32(batch.entry, row * ENTRY_SIZE) - batch.base() + get16(batch.entry, row * ENTRY_SIZE + 4)
    end = at + get32(batch.entry, row * ENTRY_SIZE + 8)
    at = property_at(p, at, end, 0x0100)
    if at < 0:
        return -1
    size = p[at]
    at += 1
    if size == 0 or at + size > end:
        return -1
    value = 0
    limit = 315360000000  # ten years; too large for an enumeration in C
    for i in range(at, at + size):
        if p[i] < 48 or p[i] > 57:
            return -1
        value = min(value * 10 + (p[i] - 48), limit)
    return value


def priority_of(batch: Batch, row: int) -> int:
    """The priority of a message, 0 if it has none."""
    p = batch.content
    at = get32(batch.entry, row * ENTRY_SIZE) - batch.base() + get16(batch.entry, row * ENTRY_SIZE + 4)
    at = property_at(p, at, at + get32(batch.entry, row * ENTRY_SIZE + 8), 0x0800)
    return 0 if at < 0 else p[at]


def width_of(p: Any, at: int, end: int, kind: int) -> int:
    """The size of a field's value of that type, which begins at `at`; -1 if it is not known, or does not fit."""
    if kind == 0x56:  # V, void
        width = 0
    elif kind == 0x74 or kind == 0x62 or kind == 0x42:  # t, b, B
        width = 1
    elif kind == 0x73 or kind == 0x75:  # s, u
        width = 2
    elif kind == 0x49 or kind == 0x69 or kind == 0x66:  # I, i, f
        width = 4
    elif kind == 0x6C or kind == 0x4C or kind == 0x64 or kind == 0x54:  # l, L, d, T
        width = 8
    elif kind == 0x44:  # D, decimal
        width = 5
    elif end - at >= 4:  # S, x, A, F
        width = 4 + load32(p, at)
    else:
        return -1
    return width if width <= end - at else -1


def delay_ms(batch: Batch, row: int) -> int:
    """The delay of a message in milliseconds, 0 if it has none: `router.model.delaying.delay_of`, without decoding all
    headers where the delay is a whole number.
    """
    p = batch.content
    at = get32(batch.entry, row * ENTRY_SIZE) - batch.base() + get16(batch.entry, row * ENTRY_SIZE + 4)
    end = at + get32(batch.entry, row * ENTRY_SIZE + 8)
    at = property_at(p, at, end, 0x2000)
    if at < 0 or end - at < 4 or load32(p, at) > end - at - 4:
        return 0
    end = at + 4 + load32(p, at)
    at += 4
    delay = 0
    while at < end:
        name = at + 1
        at = name + p[at]
        if at >= end:
            break
        kind = p[at]
        at += 1
        width = width_of(p, at, end, kind)
        if width < 0:
            break
        if at - name == 8 and names_delay(p, name):
            delay = whole_number(p, at, kind)
            if delay == OTHERWISE:
                return delayed(batch, row)
        at += width
    return delay


def names_delay(p: Any, at: int) -> bool:
    """Whether seven bytes are "x-delay"."""
    return load32(p, at) == 0x782D6465 and load16(p, at + 4) == 0x6C61 and p[at + 6] == 0x79


def whole_number(p: Any, at: int, kind: int) -> int:
    """The delay that a field says if its type is one of whole numbers, else OTHERWISE."""
    if kind == 0x62 or kind == 0x42:  # b, B
        value = p[at]
        sign = 0x80 if kind == 0x62 else 0
    elif kind == 0x73 or kind == 0x75:  # s, u
        value = load16(p, at)
        sign = 0x8000 if kind == 0x73 else 0
    elif kind == 0x49 or kind == 0x69:  # I, i
        value = load32(p, at)
        sign = 0x80000000 if kind == 0x49 else 0
    elif kind == 0x6C or kind == 0x4C:  # l, L
        if load32(p, at) & 0x80000000:
            return 0
        value = load32(p, at)
        value = min(value << 32 | load32(p, at + 4), 315360000000)  # `DELAY_MAX`
        sign = 0
    else:
        return OTHERWISE
    return 0 if value & sign else value


def delayed(batch: Batch, row: int) -> int:
    """`delay_ms` for a delay of any type."""
    properties = decode_some(batch.record(row)[1][PROPERTIES_AT:], frozenset(("headers",)))
    headers: Any = properties.get("headers", {})
    return delay_of(headers)
