"""The plain twins of the C primitives: the bounds checker of everything compiled."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.batch import pointers

SIZES = {"16": 2, "32": 4, "64": 8}
LOADS = [(name + bits, order, SIZES[bits]) for name, order in (("load", "big"), ("get", "little")) for bits in SIZES]
STORES = [(name + bits, order, SIZES[bits]) for name, order in (("store", "big"), ("put", "little")) for bits in SIZES]
Kind = Callable[[bytes], Any]


@pytest.mark.parametrize(("name", "order", "size"), LOADS)
def test_loads(name: str, order: Any, size: int) -> None:
    data = bytes(range(200, 200 + size + 2))
    assert getattr(pointers, name)(data, 1) == int.from_bytes(data[1 : 1 + size], order)
    for at in -1, 3, size + 2, 2**40:
        with pytest.raises(IndexError):
            getattr(pointers, name)(data, at)


@pytest.mark.parametrize(("name", "order", "size"), STORES)
def test_stores(name: str, order: Any, size: int) -> None:
    data = bytearray(size + 2)
    value = int.from_bytes(bytes(range(1, size + 1)), order)
    getattr(pointers, name)(data, 1, value)
    assert data == bytes(range(size + 2))[: size + 1] + b"\0"
    for at in -1, 3, size + 2, 2**40:
        with pytest.raises(IndexError):
            getattr(pointers, name)(data, at, 0)
    with pytest.raises(OverflowError):
        getattr(pointers, name)(data, 0, 1 << 8 * size)


@pytest.mark.parametrize(("at", "size"), [(-1, 2), (0, -1), (3, 2), (5, 0)])
def test_nothing_reaches_outside_its_buffer(at: int, size: int) -> None:
    inside, outside = bytearray(8), bytearray(4)
    for call in (
        lambda: pointers.read_bytes(outside, at, size),
        lambda: pointers.equal(inside, 0, outside, at, size),
        lambda: pointers.equal(outside, at, inside, 0, size),
        lambda: pointers.copy(inside, 0, outside, at, size),
        lambda: pointers.copy(outside, at, inside, 0, size),
    ):
        with pytest.raises(IndexError):
            call()
    assert (inside, outside) == (bytearray(8), bytearray(4))


def test_take_compare_and_copy() -> None:
    data = bytearray(b"abcabc")
    assert pointers.read_bytes(memoryview(data), 1, 2) == b"bc"
    assert pointers.equal(data, 0, b"xabcx", 1, 3) and not pointers.equal(data, 0, data, 1, 3)
    pointers.copy(data, 2, b"123", 1, 2)
    assert data == b"ab23bc"


@pytest.mark.parametrize("size", [0, 3, 6, 100])
def test_resizing_keeps_what_there_is_room_for(size: int) -> None:
    data = bytearray(b"abcdef")
    assert pointers.resize(data, size) == 0
    assert len(data) == size and data[:6] == b"abcdef"[:size]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview], ids=lambda kind: kind.__name__)
def test_addresses_show_the_bytes_themselves(kind: Kind) -> None:
    assert pointers.address(kind(b"abc")) == pointers.address_readonly(kind(b"abc")) == b"abc"
    data = bytearray(2)
    pointers.store16(pointers.address(data), 0, 0x0102)
    assert data == b"\x01\x02"
    assert pointers.address_of_bytearray(data) is data


def test_every_primitive_has_its_twin() -> None:
    assert pointers.__file__
    folder = Path(pointers.__file__).parent
    source = (folder / "pointers.pxd").read_text() + (folder / "held.pxd").read_text()
    declared = set(re.findall(r"^cdef inline [^(]*?(\w+)\(", source, re.MULTILINE))
    assert "load32" in declared
    assert declared == {name for name, value in vars(pointers).items() if callable(value) and name.islower()} - {
        name for name in vars(pointers) if name.startswith("_")
    }
