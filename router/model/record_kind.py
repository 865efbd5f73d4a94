"""The kinds of records in a topology, and the changes that make and remove records.

The class of a record declares its kind. From that follow the changes that are sent over the bus, the place of its
records in every replica (`router.model.topology`) and their rows in the store (`router.storage.rows`). A change is a
list:

    [kind, *fields]         makes a record, or replaces the one with that key; fields are in the order of the class
    [kind_gone, *key]       removes the record with that key
    [kind, *key, void]      the same, where the kind has a void value
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

Change: TypeAlias = list[Any]
"""One change of the topology, as sent over the bus."""


@dataclass(frozen=True, slots=True)
class RecordKind:
    """One kind of record: its `name` in changes, its `table` in the store, its fields in order.

    The first fields are the `key`, which tells records of the kind apart. `flags` are the fields that are true or
    false, `packed` those that are lists or maps; all others are text, numbers or None. A `fixed` record is never
    replaced. `void` has the last field of a record that is not to be kept, where there is such a value. The store reads
    its records in the `order` of that field, and has a column `durable` of its own if the record does not say whether
    it survives a restart of the node. `values_of` and `key_of` return all fields of a record, and those of its key.
    """

    name: str
    table: str
    fields: tuple[str, ...]
    key: tuple[str, ...]
    flags: tuple[str, ...]
    packed: tuple[str, ...]
    fixed: bool
    void: tuple[Any, ...]
    order: str | None
    durable: bool
    values_of: Callable[[Record], tuple[Any, ...]]
    key_of: Callable[[Record], tuple[Any, ...]]

    def changes(self, records: Iterable[Record]) -> Iterator[Change]:
        """Return the changes that make these records (`Record.change`)."""
        name, values_of = self.name, self.values_of
        return ([name, *values_of(record)] for record in records)

    @property
    def gone(self) -> str:
        """The name of the changes that remove records by their key."""
        return f"{self.name}_gone"


def of_kind(
    name: str, table: str, *, key: int, flags: tuple[str, ...] = (), packed: tuple[str, ...] = (), fixed: bool = False,
    void: tuple[Any, ...] = (), order: str | None = None, durable: bool = False,
) -> Callable[[type[R]], type[R]]:  # fmt: skip
    """Declare the kind of the records of a dataclass (`RecordKind`); `key` is the number of fields in the key."""

    def declare(record_type: type[R]) -> type[R]:
        names = tuple(field.name for field in fields(record_type) if field.init)  # type: ignore[arg-type]
        record_type.record_kind = RecordKind(
            name, table, names, names[:key], flags, packed, fixed, void, order, durable,
            _values_of(names), _values_of(names[:key]),
        )  # fmt: skip
        return record_type

    return declare


class Record:
    """A record of a topology: a frozen dataclass with a `record_kind`."""

    __slots__ = ()
    record_kind: ClassVar[RecordKind]

    def change(self) -> Change:
        """Return the change that makes or replaces the record. The two share lists and maps: nobody modifies these."""
        kind = self.record_kind
        return [kind.name, *kind.values_of(self)]

    def change_gone(self) -> Change:
        """Return the change that removes the record."""
        kind = self.record_kind
        if kind.void:
            return [kind.name, *kind.key_of(self), *kind.void]
        return [kind.gone, *kind.key_of(self)]


K = TypeVar("K")
R = TypeVar("R", bound=Record)


class Keeper(Protocol):
    """The records of one kind in a replica."""

    def put(self, record: Any, /) -> None:
        """Add a record, or replace the one with the same key."""

    def remove(self, *key: Any) -> None:
        """Remove the record with a key, given as its fields. KeyError if there is none."""

    def values(self) -> Iterable[Record]:
        """Return all records."""


class Records(dict[K, R], Generic[K, R]):
    """The records of one kind by key: the one field, or the tuple of several. `changed` counts the changes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = 0

    def put(self, record: R) -> None:
        """Add a record, or replace the one with the same key."""
        self.changed += 1
        self[_only(record.record_kind.key_of(record))] = record

    def remove(self, *key: Any) -> None:
        """Remove the record with a key, given as its fields. KeyError if there is none."""
        self.changed += 1
        del self[_only(key)]

    def clear(self) -> None:
        """Remove all records."""
        self.changed += 1
        super().clear()


def _values_of(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return the function that returns the values of these fields."""
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda record: (get(record),)


def _only(values: tuple[Any, ...]) -> Any:
    """Return the one value of a tuple, or a tuple of several as it is."""
    return values if len(values) > 1 else values[0]
