# cython: annotation_typing=False
"""Operations: what a turn tells its receiver to do, each a NamedTuple with its own class.

A class is numbered in the table of the process that receives it: `penstock.bus.to_shard`, `penstock.bus.to_acceptor`.
On the wire an operation is a list of its number and its fields, in order; `docs/bus.md` lists them all. Nothing else
knows the positions of fields.

Compiled, as each turn reads and writes some: Python's own construction of a NamedTuple would cost twice as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

Operation = tuple[Any, ...]
"""Any operation; each class is a NamedTuple."""

T = TypeVar("T", bound=Operation)

_heads: dict[type[Operation], tuple[int]] = {}
_new = tuple.__new__


class Operations:
    """The operations that one kind of process receives, by number."""

    def __init__(self) -> None:
        self.classes: dict[int, type[Operation]] = {}
        self.sizes: dict[int, int] = {}

    def __iter__(self) -> Iterator[tuple[int, type[Operation]]]:
        """Numbers and classes, by number."""
        return iter(sorted(self.classes.items()))

    def number(self, number: int) -> Callable[[type[T]], type[T]]:
        """Give a class its number. ValueError if the number is taken."""

        def add(kind: type[T]) -> type[T]:
            if number in self.classes:
                raise ValueError(f"operation {number} is {self.classes[number]}")
            self.classes[number] = kind
            self.sizes[number] = 1 + len(kind.__annotations__)
            _heads[kind] = (number,)
            return kind

        return add

    def read(self, wires: list[Any]) -> list[Operation]:
        """Turn the wire forms of operations, in place, into the operations. ValueError for an unknown number, or if the
        fields do not match the class.
        """
        for at in range(len(wires)):
            wire: list[Any] = wires[at]
            size = self.sizes.get(wire[0] if wire else 0)
            if size != len(wire):
                raise ValueError(f"not an operation: {wire}")
            kind = self.classes[wire.pop(0)]
            wires[at] = _new(kind, wire)
        return wires


def to_wires(operations: list[Operation]) -> list[Operation]:
    """Return the wire forms of operations. KeyError if a class has no number."""
    return [_heads[type(operation)] + operation for operation in operations]
