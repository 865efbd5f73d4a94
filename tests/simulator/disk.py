"""The disk of a shard as the store sees it: environments of databases in memory, which fail as a plan says.

A commit is in the environment as a whole or not at all. Written records outlive their shard; flushed ones outlive a
power cut. Bytes on the disk may rot.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from shard.contents.errors import StoreError
from shard.store.environment import Environment
from shard.store.store import Store
from shard.store.stored import DATABASES, KEY, SPILL_DATABASES

KEPT, SPILLED = "kept", "spilled"
"""The environments of a store."""
Records = dict[bytes, bytes]


class Database:
    """Records of one database, in the order of their keys."""

    def __init__(self) -> None:
        self.records: Records = {}
        self.keys: list[bytes] = []

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a record; None deletes it."""
        if value is None:
            if self.records.pop(key, None) is not None:
                del self.keys[bisect_left(self.keys, key)]
            return
        if key not in self.records:
            insort(self.keys, key)
        self.records[key] = value

    def copy(self) -> Database:
        """Return a copy."""
        other = Database()
        other.records, other.keys = dict(self.records), list(self.keys)
        return other


class SimulatedDisk:
    """The disk of one shard. While it has a `trouble`, nothing can be written; `unflushable`, nothing flushed. One that
    `lies` says that it has flushed what it has not.
    """

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.unflushable: str | None = None
        self.lies = False
        self.databases: dict[tuple[str, str], Database] = {}
        self.flushed: dict[tuple[str, str], Database] = {}

    def folder(self, folder: str, names: tuple[str, ...]) -> dict[str, Database]:
        """Return the databases of an environment, made on first use."""
        return {name: self.databases.setdefault((folder, name), Database()) for name in names}

    def flush(self) -> None:
        """Flush the written records. StoreError if the disk cannot."""
        if self.unflushable is not None:
            raise StoreError(Path("disk"), self.unflushable)
        if self.lies:
            return
        self.flushed = {key: database.copy() for key, database in self.databases.items() if key[0] == KEPT}

    def lose_power(self) -> None:
        """Lose unflushed records."""
        self.databases = {key: database.copy() for key, database in self.flushed.items()}

    def rot(self, chance: Random) -> int | None:
        """Change a bit of a message's contents; return the id of its queue, None if there are no contents."""
        key, contents = self.some_contents(chance)
        if key is None:
            return None
        value = bytearray(contents[key])
        value[chance.randrange(len(value))] ^= 1 << chance.randrange(8)
        contents[key] = bytes(value)
        return queue_of(key)

    def misdirect(self, chance: Random) -> int | None:
        """Write contents of one message over those of another; return the id of its queue, None if there are none."""
        (key, contents), (other, _) = self.some_contents(chance), self.some_contents(chance)
        if key is None or other is None:
            return None
        contents[key] = contents[other]
        return queue_of(key)

    def lose_write(self, chance: Random) -> int | None:
        """Lose the contents of a message; return the id of its queue, None if there are none."""
        key, _ = self.some_contents(chance)
        if key is None:
            return None
        self.databases[KEPT, "contents"].put(key, None)
        return queue_of(key)

    def some_contents(self, chance: Random) -> tuple[bytes | None, Records]:
        """Return the key of some message's contents, None if there are none, and all contents."""
        database = self.databases.get((KEPT, "contents"), Database())
        return chance.choice(database.keys) if database.keys else None, database.records


def queue_of(key: bytes) -> int:
    """Return the id of the queue of a message, by its key."""
    queue_id: int = KEY.unpack(key)[0]
    return queue_id


class Transaction:
    """A transaction of LMDB, as far as a store uses it. Changes are carried out at its end."""

    def __init__(self, databases: dict[str, Database]) -> None:
        self.databases = databases
        self.changes: dict[tuple[str, bytes], bytes | None] = {}
        self.dropped: set[str] = set()

    def get(self, key: bytes, db: str) -> bytes | None:
        if (db, key) in self.changes:
            return self.changes[db, key]
        return None if db in self.dropped else self.databases[db].records.get(key)

    def put(self, key: bytes, value: bytes, db: str) -> None:
        self.changes[db, key] = bytes(value)

    def delete(self, key: bytes, db: str) -> None:
        self.changes[db, key] = None

    def pop(self, key: bytes, db: str) -> bytes | None:
        before = self.get(key, db)
        self.delete(key, db)
        return before

    def replace(self, key: bytes, value: bytes, db: str) -> bytes | None:
        before = self.get(key, db)
        self.put(key, value, db)
        return before

    def drop(self, db: str, delete: bool) -> None:
        """Delete all records."""
        assert not delete
        self.dropped.add(db)

    def cursor(self, db: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the records in the order of their keys, as they were before the transaction."""
        database = self.databases[db]
        return ((key, database.records[key]) for key in database.keys)

    def commit(self) -> None:
        """Carry out the changes."""
        for name in self.dropped:
            self.databases[name].records.clear()
            self.databases[name].keys.clear()
        for (name, key), value in self.changes.items():
            self.databases[name].put(key, value)


class SimulatedEnvironment(Environment):
    """An environment on a simulated disk."""

    def __init__(self, disk: SimulatedDisk, path: Path, folder: str, names: tuple[str, ...]) -> None:
        self.disk = disk
        self.path = path
        self.databases = disk.folder(folder, names)
        self.flushes = folder == KEPT

    def limit(self, nbytes: int) -> None:
        """Everything fits."""

    def entries(self, name: str) -> int:
        return len(self.databases[name].records)

    def __getitem__(self, name: str) -> str:
        return name

    @contextmanager
    def reading(self, what: str) -> Iterator[Any]:
        yield Transaction(self.databases)

    def write(self, put: Callable[[Any], None]) -> None:
        if self.disk.trouble is not None:
            raise StoreError(self.path, self.disk.trouble)
        transaction = Transaction(self.databases)
        put(transaction)
        transaction.commit()

    def overflowed(self) -> bool:
        return False

    def has_room(self, was_full: bool) -> bool:
        return True

    def sync(self) -> None:
        if self.flushes:
            self.disk.flush()

    def close(self) -> None:
        """Nothing is open."""


class SimulatedStore(Store):
    """A store on a simulated disk."""

    def __init__(self, disk: SimulatedDisk, path: Path, epoch: int) -> None:
        self._disk = disk
        super().__init__(path, limit=0, durable=False, epoch=epoch)

    def _open_kept(self, limit: int) -> Environment:
        return SimulatedEnvironment(self._disk, self.path, KEPT, DATABASES)

    def _open_spilled(self, limit: int) -> Environment:
        return SimulatedEnvironment(self._disk, self.path, SPILLED, SPILL_DATABASES)
