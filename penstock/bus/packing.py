"""Values as one frame of msgpack. Text from the wire that is not UTF-8 keeps its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgpack


def pack(value: object) -> bytes:
    """One frame of msgpack."""
    packed: bytes = packer().pack(value)
    return packed


def unpack(frame: Any) -> Any:
    """The value of one frame. ValueError if it is not msgpack."""
    return msgpack.unpackb(frame, strict_map_key=False, unicode_errors="surrogateescape", ext_hook=_unpack_decimal)


def unpack_stream(file: Any, bytes_max: int) -> Iterator[Any]:
    """The values of a file that were packed one after the other, each of at most `bytes_max` bytes.

    A truncated last value is left out. ValueError or msgpack.UnpackException if the file holds something else.
    """
    unpacker: Iterator[Any] = msgpack.Unpacker(
        file, max_buffer_size=bytes_max, strict_map_key=False, unicode_errors="surrogateescape",
        ext_hook=_unpack_decimal,
    )  # fmt: skip
    return unpacker


_DECIMAL = 1


def _pack_decimal(value: object) -> msgpack.ExtType:
    if isinstance(value, Decimal):
        return msgpack.ExtType(_DECIMAL, str(value).encode())
    raise TypeError(f"{type(value).__name__} cannot be sent")


def packer() -> msgpack.Packer:
    return msgpack.Packer(unicode_errors="surrogateescape", default=_pack_decimal)


def _unpack_decimal(code: int, data: bytes) -> Decimal:
    if code != _DECIMAL:
        raise ValueError(f"extension type {code} is none of ours")
    return Decimal(data.decode())
