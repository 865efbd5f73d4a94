"""Reads the messages of a store one by one from bytes that may be damaged: nothing here trusts its input."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from shard.contents.segment_cy import Segment

ROW = Struct("<IHHII")
"""A row of a batch (penstock/batch/batch_cy.py): start, size of the address, flags, size of the header, of the body."""
HEADER = Struct(">HHQH")
"""The start of a content header (AMQP 0-9-1, 4.2.6.1): class, weight, body size, property flags."""
CLASS_BASIC = 60


class Row(NamedTuple):
    """One message of a segment: its number, its flags, and the offsets of its parts and its end in the contents."""

    offset: int
    flags: int
    address: int
    header: int
    body: int
    end: int


def rows(count: int, value: memoryview) -> Iterator[Row]:
    """Yield the messages of a segment's value in `contents`. ValueError where they do not fit it or each other."""
    split = ROW.size * count
    if len(value) < split:
        raise ValueError(f"{len(value)} bytes for {count} messages")
    base = at = -1
    for offset, (start, address_size, flags, header_size, body_size) in enumerate(ROW.iter_unpack(value[:split])):
        if base < 0:
            base = at = start
        if start != at:
            raise ValueError(f"message {offset} begins at {start - base}, the one before ends at {at - base}")
        header = start + address_size
        body = header + header_size
        at = body + body_size
        shift = split - base
        if at + shift > len(value):
            raise ValueError(f"message {offset} ends at {at - base}, the contents at {len(value) - split}")
        yield Row(offset, flags, start + shift, header + shift, body + shift, at + shift)
    if at + split - base != len(value):
        raise ValueError(f"{len(value) - split - at + base} bytes after the last message")


def address_of(row: Row, value: memoryview) -> tuple[bytes, bytes]:
    """Return exchange and routing key. ValueError if they are not two short strings."""
    data = bytes(value[row.address : row.header])
    split = data[0] + 1 if data else 0
    if split >= len(data) or split + 1 + data[split] != len(data):
        raise ValueError(f"message {row.offset}: its address is no exchange and routing key")
    return data[1:split], data[split + 1 :]


def check_header(row: Row, value: memoryview) -> None:
    """Raise ValueError if the header is not that of a content with this body."""
    if row.body - row.header < HEADER.size:
        raise ValueError(f"message {row.offset}: a header of {row.body - row.header} bytes")
    class_id, _, body_size, _ = HEADER.unpack_from(value, row.header)
    if class_id != CLASS_BASIC or body_size != row.end - row.body:
        raise ValueError(f"message {row.offset}: its header is of class {class_id} and {body_size} bytes")


def done_bits(segment: Segment) -> int:
    """Return a bit for each message of a segment, lowest first: set if the store need not keep the message."""
    return int.from_bytes(segment.done, "little") if segment.done is not None else 0
