"""Operations: what a turn tells its receiver to do, each a NamedTuple with its own class.

A class is numbered in the table of the process that receives it: `penstock.bus.to_shard`, `penstock.bus.to_acceptor`.
On the wire an operation is a list of its number and its fields, in order; `docs/bus.md` lists them all. Nothing else
knows the positions of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

Operation = tuple[Any, ...]
"""Any operation; each class is a NamedTuple."""

T = TypeVar("T", bound=Operation)

_numbers: dict[type[Operation], int] = {}


class Operations:
    """The operations that one kind of process receives, by number."""

    def __init__(self) -> None:
        self._classes: dict[int, type[Operation]] = {}

    def __iter__(self) -> Iterator[tuple[int, type[Operation]]]:
        """Numbers and classes, by number."""
        return iter(sorted(self._classes.items()))

    def number(self, number: int) -> Callable[[type[T]], type[T]]:
        """Give a class its number. ValueError if the number is taken."""

        def add(kind: type[T]) -> type[T]:
            if number in self._classes:
                raise ValueError(f"operation {number} is {self._classes[number]}")
            self._classes[number] = kind
            _numbers[kind] = number
            return kind

        return add

    def read(self, wire: Sequence[Any]) -> Operation:
        """Return the operation in its wire form. KeyError for an unknown number, TypeError if the fields do not match
        its class.
        """
        kind: Callable[..., Operation] = self._classes[wire[0]]
        return kind(*wire[1:])


def to_wire(operation: Operation) -> Operation:
    """Return the wire form of an operation. KeyError if its class has no number."""
    return (_numbers[type(operation)], *operation)
