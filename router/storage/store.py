"""The topology on disk: DATA/topology.sqlite.

It holds the whole topology, transient records included, so that a router that dies loses nothing. Transient rows belong
to the node's epoch (its start): the first router of another epoch deletes them, with everything else that belongs to
one run of the node.

A transaction with a durable step waits for the disk; the others leave the writing to the kernel: if that dies, so does
the node, and the epoch ends.

When a flush fails, the kernel may count the pages as written (fsync(2)): after a power cut an earlier part of the log
would be missing, and all that follows with it. So after an error the log is first copied into the database and begun
anew.

Records are rows of one table for each kind (`router.storage.rows`); the version of the placement is a fact.

To change the stored format, append to `MIGRATIONS` the statements that lead from the previous format to the new one,
and keep the older ones: a file of any age is migrated when it is opened. A file of a newer penstock is refused.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.files import reserve
from penstock.files.witness import Witness
from router.authority.ledger import Step
from router.model.record_kind import Change
from router.model.topology import COUNTERS
from router.storage import sums
from router.storage.rows import ROWS, WRITERS

FILE_NAME = "topology.sqlite"
APPLICATION_ID = 0x50535432
"""In the file's header (sqlite.org/fileformat2, 1.3.15): "PST2"; a file with another id is not penstock's."""

NAME_KEY_BYTES = 32
BUSY_SECONDS = 5.0
Through = Callable[[Iterable[Change]], Iterable[Change]]
# The most turns kept for the router's next incarnation, and the most bytes of one: followers have missed no more turns.
TURNS = 16
TURN_BYTES = 1024 * 1024
SPARE_SLOTS = 1024
"""In the next epoch queues keep the slots below twice their number plus this, so that the gauges stay small."""

MIGRATIONS: tuple[str, ...] = (
    # 1. The rows of `router.storage.rows`; arguments and limits are msgpack. A slot is -1 until it is assigned.
    """
    CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE vhosts (name PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE exchanges (
        vhost, name, type TEXT, durable INTEGER, auto_delete INTEGER, internal INTEGER, arguments BLOB,
        PRIMARY KEY (vhost, name)) WITHOUT ROWID;
    CREATE TABLE queues (
        vhost, name, queue_id INTEGER UNIQUE, slot INTEGER, shard INTEGER, durable INTEGER, auto_delete INTEGER,
        owner TEXT, arguments BLOB, limits BLOB,
        PRIMARY KEY (vhost, name)) WITHOUT ROWID;
    CREATE TABLE bindings (
        vhost, source, kind TEXT, destination, key, arguments BLOB, durable INTEGER,
        PRIMARY KEY (vhost, source, kind, destination, key, arguments)) WITHOUT ROWID;
    CREATE TABLE placements (vhost, queue, shard INTEGER, PRIMARY KEY (vhost, queue)) WITHOUT ROWID;
    """,
    # 2. Features of queues, msgpack; an empty list for older queues until they are recovered.
    """
    ALTER TABLE queues ADD COLUMN features BLOB DEFAULT x'90';
    """,
    # 3. Policies, and which of them govern exchanges and queues.
    """
    CREATE TABLE policies (
        vhost, operator INTEGER, name, pattern, apply_to TEXT, priority INTEGER, definition BLOB,
        PRIMARY KEY (vhost, operator, name)) WITHOUT ROWID;
    ALTER TABLE exchanges ADD COLUMN policy;
    ALTER TABLE exchanges ADD COLUMN policy_alternate;
    ALTER TABLE queues ADD COLUMN policy;
    ALTER TABLE queues ADD COLUMN operator_policy;
    """,
    # 4. Users and permissions; tags are msgpack. The fact "seeded" exists once anything has been stored since.
    """
    CREATE TABLE users (name PRIMARY KEY, password_hash TEXT, tags BLOB) WITHOUT ROWID;
    CREATE TABLE permissions (user, vhost, configure, write, read, PRIMARY KEY (user, vhost)) WITHOUT ROWID;
    CREATE TABLE topic_permissions (
        user, vhost, exchange, write, read, PRIMARY KEY (user, vhost, exchange)) WITHOUT ROWID;
    """,
    # 5. Operators' stops; those of a connection end with the epoch, which no connection outlives.
    """
    CREATE TABLE stops (
        number INTEGER PRIMARY KEY, vhost, exchange, key, queue, user, connection, author, reason,
        since REAL, until REAL);
    """,
    # 6. Hold-offs of users from an address.
    """
    CREATE TABLE hold_offs (
        user, host, times INTEGER, since REAL, until REAL, forget_at REAL, reason,
        PRIMARY KEY (user, host)) WITHOUT ROWID;
    """,
    # 7. Moves of queues; none outlives the epoch: the queue is where its own record says.
    """
    CREATE TABLE moves (
        queue_id INTEGER PRIMARY KEY, epoch INTEGER, source INTEGER, target INTEGER, phase TEXT, source_life INTEGER,
        target_life INTEGER, plan, since REAL, count INTEGER, octets INTEGER, checksum INTEGER, outcome TEXT, reason);
    """,
    # 8. The shards, once commands have changed them.
    """
    CREATE TABLE shards (number INTEGER PRIMARY KEY, state TEXT);
    """,
    # 9. The maker of a binding; unknown for older ones.
    """
    ALTER TABLE bindings ADD COLUMN maker;
    """,
    # 10. The stop of a moving queue, packed; empty if it holds no producers.
    """
    ALTER TABLE moves ADD COLUMN stop BLOB DEFAULT x'90';
    """,
    # 11. The maker of an exchange or a queue; unknown for older ones.
    """
    ALTER TABLE exchanges ADD COLUMN maker;
    ALTER TABLE queues ADD COLUMN maker;
    """,
    # 12. Limits of vhosts and users, msgpack.
    """
    CREATE TABLE limits (scope TEXT, name, limits BLOB, PRIMARY KEY (scope, name)) WITHOUT ROWID;
    """,
    # 13. The turns of this epoch that were published last, to be repeated by the router's next incarnation.
    """
    CREATE TABLE turns (version INTEGER PRIMARY KEY, published BLOB);
    """,
    # 14. The number of rows of each table, and the sum of their checksums (router/storage/sums.py).
    f"{sums.CREATE};",
    # 15. A move names the incarnations of its shards, and the size of the copy.
    """
    ALTER TABLE moves RENAME COLUMN octets TO size;
    ALTER TABLE moves RENAME COLUMN source_life TO source_incarnation;
    ALTER TABLE moves RENAME COLUMN target_life TO target_incarnation;
    """,
    # 16. Descriptions and tags of vhosts; tags are msgpack.
    """
    CREATE TABLE vhost_metadata (vhost PRIMARY KEY, description TEXT, tags BLOB) WITHOUT ROWID;
    """,
)


SUMS_SINCE = 1 + next(number for number, script in enumerate(MIGRATIONS) if sums.CREATE in script)
"""The first format with checksums."""


class StoreError(Exception):
    """The store cannot be opened, read or written; the text is one line that says why."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The topology as stored last. `name_key` is random bytes of this epoch; in a new epoch the slots of queues are -1.
    `turns` are the versions and frames that were published last in this epoch.

    `seeded`: whether a new node's first vhost and user have been stored; they are not made again once deleted.
    `begun`: whether anything has been stored in this epoch.
    """

    version: int
    last_queue_id: int
    name_key: bytes
    changes: list[Change]
    seeded: bool
    begun: bool = False
    turns: Sequence[tuple[int, bytes]] = ()


class Store:
    """The open database, which one process at a time may have."""

    def __init__(self, path: Path, epoch: int, witness: Witness | None = None) -> None:
        """Open or make the database for this epoch of the node. StoreError if that fails, or if the witness knows
        another database or a later state.
        """
        self.path = path
        self._epoch = epoch
        self._witness = witness
        self._in_doubt = True  # a flush of a router that died may have failed
        try:
            if witness is not None and not path.exists() and witness.seen() is not None:
                raise StoreError(f"{path} is missing")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            path.chmod(0o600)  # password hashes are in it; SQLite gives its other files the same mode
            self._database = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        except (OSError, ValueError, sqlite3.Error) as error:
            raise StoreError(f"cannot open {path}: {error}") from None
        try:
            self._execute = self._database.execute
            self._migrate()
            self._execute("PRAGMA journal_mode = WAL")
            self._recognise()
            self.check_sums()
            sums.install_triggers(self._database)
            self._begin_epoch(epoch)
            self._inform_witness(self._fact("version", 0), durable=False)
        except (OSError, ValueError, sqlite3.Error) as error:
            self._database.close()
            raise StoreError(f"cannot use {path}: {error}") from None
        except StoreError:
            self._database.close()
            raise

    def keep_reserve(self) -> None:
        """Reserve room on the disk for the next start, which may change every record of the database."""
        with suppress(OSError):
            reserve.keep(self.path.parent, self.path.stat().st_size)

    def give_back_reserve(self) -> None:
        """Give the reserved room back to the disk."""
        with suppress(OSError):
            reserve.give_back(self.path.parent)

    def close(self) -> None:
        self._database.close()
        if self._witness is not None:
            self._witness.close()

    def check_sums(self) -> None:
        """StoreError if a table does not match its checksums."""
        _check_sums(self.path, self._database)

    def _recognise(self) -> None:
        """StoreError if the witness knows another database or a later state."""
        if self._witness is not None:
            complaint = self._witness.complaint(self._fact("node", None), self._fact("version", 0))
            if complaint is not None:
                raise StoreError(f"{self.path}: {complaint}")

    def _inform_witness(self, version: int, durable: bool) -> None:
        """Record the stored version with the witness."""
        if self._witness is not None:
            self._witness.record(version, version if durable else 0)

    def _migrate(self) -> None:
        version = _known_format(self.path, self._database)
        if version < len(MIGRATIONS):
            marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {len(MIGRATIONS)}"
            with _transaction(self._database):
                for statement in ("".join(MIGRATIONS[version:]) + marks).split(";"):
                    self._execute(statement)
                sums.rebuild(self._database)

    def _begin_epoch(self, epoch: int) -> None:
        if self._fact("epoch", None) == epoch:
            return
        self._execute("PRAGMA synchronous = FULL")
        with _transaction(self._database):
            for table in ("exchanges", "queues", "bindings"):
                self._execute(f"DELETE FROM {table} WHERE NOT durable")
            self._execute("DELETE FROM stops WHERE connection IS NOT NULL")
            self._execute("DELETE FROM moves")
            self._execute("DELETE FROM turns")
            (queues,) = self._execute("SELECT count(*) FROM queues").fetchone()
            self._execute("UPDATE queues SET slot = -1 WHERE slot >= ?", (2 * queues + SPARE_SLOTS,))
            self._set_fact("epoch", epoch)
            if self._witness is not None:
                self._set_fact("node", self._witness.node)
            self._set_fact("name_key", os.urandom(NAME_KEY_BYTES))

    def load(self, through: Through = iter) -> Stored:
        """Return the topology as stored last; its changes pass `through` an iterator that shows the progress.
        StoreError if it cannot be read.
        """
        try:
            return Stored(
                self._fact("version", 0),
                self._fact("last_queue_id", 0),
                self._fact("name_key", b""),
                list(through(self.changes())),
                bool(self._fact("seeded", 0)),
                self._fact("begun", None) == self._epoch,
                self._execute("SELECT version, published FROM turns ORDER BY version").fetchall(),
            )
        except (sqlite3.Error, ValueError) as error:
            raise StoreError(f"cannot read {self.path}: {error}") from None

    def version(self) -> int:
        """Return the version that was stored last."""
        return int(self._fact("version", 0))

    def changes(self) -> Iterator[Change]:
        """Yield the changes that make the stored topology from nothing. sqlite3.Error, ValueError if unreadable."""
        for rows in ROWS:
            yield from rows.changes(self._execute)
        numbers = ([name, self._fact(name, 0)] for name in COUNTERS)
        yield from (change for change in numbers if change[1])

    def commit(self, steps: Iterable[Step], version: int, last_queue_id: int, published: bytes = b"") -> None:
        """Store the steps that lead to a version, all or none, and the frame published of them. StoreError if that
        fails; it may be tried again.
        """
        steps = list(steps)
        durable = any(step.durable for step in steps)
        try:
            if self._in_doubt:
                self._begin_log()
            self._execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            with _transaction(self._database):
                for change, is_durable in steps:
                    if change[0] in COUNTERS:
                        self._set_fact(*change)
                    else:
                        WRITERS[change[0]](self._execute, change, is_durable)
                self._set_fact("version", version)
                self._set_fact("last_queue_id", last_queue_id)
                self._set_fact("seeded", 1)
                self._set_fact("begun", self._epoch)
                self._keep_turn(version, published)
            self._inform_witness(version, durable)
        except (OSError, sqlite3.Error) as error:
            self._in_doubt = True
            raise StoreError(f"cannot write {self.path}: {error}") from None

    def _keep_turn(self, version: int, published: bytes) -> None:
        """Keep a published turn. If it is too large, drop those before it too, which are of no use without it."""
        if 0 < len(published) <= TURN_BYTES:
            self._execute("INSERT INTO turns VALUES (?, ?)", (version, published))
        else:
            self._execute("DELETE FROM turns")
        self._execute("DELETE FROM turns WHERE version <= ?", (version - TURNS,))

    def _begin_log(self) -> None:
        """Copy the log into the database, on the disk, and empty it."""
        self._execute("PRAGMA synchronous = FULL")
        busy, _, _ = self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise sqlite3.OperationalError("another process reads the log")
        self._in_doubt = False

    def _fact(self, name: str, default: Any) -> Any:
        row = self._execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row else default

    def _set_fact(self, name: str, value: object) -> None:
        self._execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


def _known_format(path: Path, database: sqlite3.Connection) -> int:
    """Return the format of a database. StoreError if it is of another program or of a newer penstock."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    (application,) = database.execute("PRAGMA application_id").fetchone()
    (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION_ID and (application or tables):
        raise StoreError(f"{path} is not a topology of penstock")
    newest = len(MIGRATIONS)
    if version > newest:
        raise StoreError(f"{path} is of a newer penstock: of format {version}, this one knows up to {newest}")
    return int(version)


@dataclass(frozen=True, slots=True)
class Facts:
    """The identity of a stored topology, and the shards of its durable queues. `node` is None in one of an older
    penstock; `commits` is its version.
    """

    node: int | None
    epoch: int
    commits: int
    shards: tuple[int, ...]


def _check_sums(path: Path, database: sqlite3.Connection) -> None:
    table = sums.damaged_table(database)
    if table is not None:
        raise StoreError(f"{path}: it is damaged: the {table} are not what was written")


def facts_of(path: Path) -> Facts | None:
    """Return the facts of a node that does not run; None without a topology. StoreError if it cannot be used."""
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as database:
            (application,) = database.execute("PRAGMA application_id").fetchone()
            if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return None
            if application != APPLICATION_ID:
                raise StoreError(f"{path} is not a topology of penstock")
            for (problem,) in database.execute("PRAGMA quick_check(1)"):
                if problem != "ok":
                    raise StoreError(f"{path}: it is damaged: {problem.splitlines()[-1]}")
            if database.execute("PRAGMA user_version").fetchone()[0] >= SUMS_SINCE:
                _check_sums(path, database)
            facts = dict(database.execute("SELECT name, value FROM facts"))
            shards = database.execute("SELECT DISTINCT shard FROM queues WHERE durable").fetchall()
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from None
    return Facts(facts.get("node"), facts.get("epoch", 0), facts.get("version", 0), tuple(n for (n,) in shards))


def known_shards(path: Path) -> tuple[int, ...]:
    """Return the stored shards of a node that does not run; none if no command has changed them. StoreError if they
    cannot be read or used.
    """
    if not path.exists():
        return ()
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as database:
            _known_format(path, database)
            tables = database.execute("SELECT name FROM sqlite_master WHERE name = 'shards'").fetchall()
            found = database.execute("SELECT number FROM shards ORDER BY number").fetchall() if tables else []
    except sqlite3.Error as error:
        raise StoreError(f"cannot read {path}: {error}") from None
    return tuple(number for (number,) in found)


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    try:
        database.execute("BEGIN IMMEDIATE")  # one that is interrupted may have begun
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # a full disk may have ended it already
            database.execute("ROLLBACK")
        raise
