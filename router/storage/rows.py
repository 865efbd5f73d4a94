"""The rows in which the database keeps the records of the topology: statements and values, derived from their kinds.

A column has the name of its field. Lists and maps are msgpack. SQLite's text is UTF-8, so text that is not becomes a
blob.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from penstock.bus import pack, unpack
from router.model.kinds import KINDS
from router.model.record_kind import Change, RecordKind

Execute = Callable[..., Any]
"""Executes a statement with values, as `sqlite3.Connection.execute` does."""

Write = Callable[[Execute, Change, bool], None]
"""Stores the effect of a change; True: of a record that survives a restart of the node."""


class Rows:
    """The rows of one kind of record; `writers` are the functions that store changes, by the first field of these."""

    def __init__(self, kind: RecordKind) -> None:
        self._name, self._void, self._durable = kind.name, kind.void, kind.durable
        self.writers: dict[str, Write] = {kind.name: self.put}
        if not kind.void:
            self.writers[kind.gone] = self.remove
        self._flags, self._packed = _places(kind, kind.flags), _places(kind, kind.packed)
        self._packed_of_key = tuple(place for place in self._packed if place <= len(kind.key))
        columns = [*kind.fields, *(["durable"] if kind.durable else [])]
        insert = "INSERT" if kind.fixed else "INSERT OR REPLACE"
        self._insert = f"{insert} INTO {kind.table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"
        self._delete = f"DELETE FROM {kind.table} WHERE {' AND '.join(f'{name} = ?' for name in kind.key)}"
        order = "" if kind.order is None else f" ORDER BY {kind.order}"
        self._select = f"SELECT {', '.join(kind.fields)} FROM {kind.table}{order}"

    def changes(self, execute: Execute) -> Iterator[Change]:
        """Yield the changes that make the stored records. sqlite3.Error, ValueError if one is unreadable."""
        for row in execute(self._select):
            change = [self._name, *row]
            for place in self._flags:
                change[place] = bool(change[place])
            for place in self._packed:
                change[place] = unpack(change[place])
            yield _as_text(change) if bytes in map(type, change) else change

    def put(self, execute: Execute, change: Change, durable: bool) -> None:
        """Store the record that a change makes, or remove the one that it voids."""
        if change[-1] in self._void:
            self.remove(execute, change[:-1], durable)
            return
        values = _values(change, self._packed)
        if self._durable:
            values.append(durable)
        _execute(execute, self._insert, values)

    def remove(self, execute: Execute, change: Change, _durable: bool) -> None:
        """Remove the record with the key in a change."""
        _execute(execute, self._delete, _values(change, self._packed_of_key))


def _places(kind: RecordKind, names: Sequence[str]) -> tuple[int, ...]:
    """Return the places of these fields in a change."""
    return tuple(1 + kind.fields.index(name) for name in names)


def _values(change: Change, packed: Sequence[int]) -> list[Any]:
    """Return the fields of a change as stored, those at these places as msgpack."""
    values = change[1:]
    for place in packed:
        values[place - 1] = pack(values[place - 1])
    return values


def _execute(execute: Execute, statement: str, values: list[Any]) -> None:
    try:
        execute(statement, values)
    except UnicodeEncodeError:
        execute(statement, [_stored(value) if isinstance(value, str) else value for value in values])


def _stored(text: str) -> str | bytes:
    """Return text as stored: as a blob if it is not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")
    return text


def _as_text(change: Change) -> Change:
    """Return a change with text in place of blobs."""
    return [value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value for value in change]


ROWS = tuple(Rows(record_type.record_kind) for record_type in KINDS)
"""The rows of all kinds, in the order of a snapshot."""

WRITERS: dict[str, Write] = {name: write for rows in ROWS for name, write in rows.writers.items()}
"""The writer of each change of a record, by the first field of the change."""
