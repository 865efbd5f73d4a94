"""Plain twins of the C primitives in bytes.pxd, for the compiled modules when they run uncompiled.

Being Python, they check every bound: a module that passes the fuzz tests on them does not read or write outside its
buffers when compiled. A "pointer" here is the buffer itself.
"""

from __future__ import annotations

from typing import Any

Pointer = Any


def address(view: Any) -> Pointer:
    """The buffer as a pointer."""
    return memoryview(view).cast("B")


address_readonly = address


def address_of_bytearray(data: bytearray) -> Pointer:
    """The bytearray as a pointer."""
    return data


def address_of_bytes(data: bytes) -> Pointer:
    """The bytes as a pointer."""
    return data


class Held:
    """The plain twin of `penstock.batch.held.Held`. TypeError if the source has no buffer."""

    def __init__(self, source: Any) -> None:
        self.pointer = address_readonly(source)


def start_of(held: Held) -> Pointer:
    """The buffer that is held, as a pointer."""
    return held.pointer


def resize(data: bytearray, size: int) -> int:
    """Resize a bytearray; new bytes are 0 here, undefined when compiled."""
    if size > len(data):
        data.extend(bytes(size - len(data)))
    else:
        del data[size:]
    return 0


def _within(p: Pointer, at: int, size: int) -> None:
    if at < 0 or size < 0 or at + size > len(p):
        raise IndexError(f"{size} bytes at {at} of {len(p)}")


def read_bytes(p: Pointer, at: int, size: int) -> bytes:
    """Copy `size` bytes at `at`. IndexError beyond the buffer, as in all functions here."""
    _within(p, at, size)
    return bytes(p[at : at + size])


def equal(a: Pointer, at: int, b: Pointer, start: int, size: int) -> bool:
    """Whether two ranges of bytes are equal."""
    _within(a, at, size)
    _within(b, start, size)
    return bytes(a[at : at + size]) == bytes(b[start : start + size])


def copy(target: Pointer, at: int, source: Pointer, start: int, size: int) -> None:
    """Copy a range of bytes from one buffer to another."""
    _within(target, at, size)
    _within(source, start, size)
    target[at : at + size] = source[start : start + size]


def _load(p: Pointer, at: int, size: int, order: Any) -> int:
    _within(p, at, size)
    return int.from_bytes(p[at : at + size], order)


def _store(p: Pointer, at: int, size: int, value: int, order: Any) -> None:
    _within(p, at, size)
    p[at : at + size] = value.to_bytes(size, order)


def load16(p: Pointer, at: int) -> int:
    """Load 16 bits, big-endian."""
    return _load(p, at, 2, "big")


def load32(p: Pointer, at: int) -> int:
    """Load 32 bits, big-endian."""
    return _load(p, at, 4, "big")


def load64(p: Pointer, at: int) -> int:
    """Load 64 bits, big-endian."""
    return _load(p, at, 8, "big")


def store16(p: Pointer, at: int, value: int) -> None:
    """Store 16 bits, big-endian."""
    _store(p, at, 2, value, "big")


def store32(p: Pointer, at: int, value: int) -> None:
    """Store 32 bits, big-endian."""
    _store(p, at, 4, value, "big")


def store64(p: Pointer, at: int, value: int) -> None:
    """Store 64 bits, big-endian."""
    _store(p, at, 8, value, "big")


def get16(p: Pointer, at: int) -> int:
    """Load 16 bits, little-endian."""
    return _load(p, at, 2, "little")


def get32(p: Pointer, at: int) -> int:
    """Load 32 bits, little-endian."""
    return _load(p, at, 4, "little")


def get64(p: Pointer, at: int) -> int:
    """Load 64 bits, little-endian."""
    return _load(p, at, 8, "little")


def put16(p: Pointer, at: int, value: int) -> None:
    """Store 16 bits, little-endian."""
    _store(p, at, 2, value, "little")


def put32(p: Pointer, at: int, value: int) -> None:
    """Store 32 bits, little-endian."""
    _store(p, at, 4, value, "little")


def put64(p: Pointer, at: int, value: int) -> None:
    """Store 64 bits, little-endian."""
    _store(p, at, 8, value, "little")
