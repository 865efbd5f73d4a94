# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""The two properties that a queue acts on, read from rows of a batch: expiration and priority (AMQP 0-9-1, 4.2.6.1).

For messages whose row is flagged to have them. An unreadable property counts as absent: malformed ones were refused
before they came here.
"""

from __future__ import annotations

from typing import Any

import cython

if not cython.compiled:
    from penstock.batch.batch_cy import Batch
    from penstock.batch.pointers import get16, get32, load16, load32

    ENTRY_SIZE = 16


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
