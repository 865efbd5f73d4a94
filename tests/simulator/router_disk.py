"""The disk of the router: a real database. A death leaves it as it is; a power cut takes back unflushed commits."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from penstock.files.witness import TOPOLOGY, Witness
from router.authority.ledger import Step
from router.model.record_kind import Change
from router.model.records import Binding, Exchange, Queue, Stop
from router.model.topology import Topology
from router.storage.store import FILE_NAME, Store
from tests.simulator.records import record

LOG = f"{FILE_NAME}-wal"
"""SQLite's log beside the database; commits are in it until they are copied (sqlite.org/wal)."""
NODE = 1
FEWEST, MOST = 20, 400
"""How many instructions of SQLite's machine a disk in trouble lets a statement have: none that changes anything has so
few, and some have more.
"""


class RouterDisk:
    """The directories of the incarnations of a router; each begins with the files that the one before left. While the
    disk has a `trouble`, transactions fail, some of them half-way.
    """

    def __init__(self, directory: Path, chance: Random) -> None:
        self.directory = directory
        self.chance = chance
        self.incarnations = 0
        self.trouble = False
        self.store: SimulatedRouterStore | None = None
        self.flushed = 0
        """How much of the log is on the disk."""
        self.boot = 1

    @property
    def files(self) -> Path:
        """The directory of the present incarnation."""
        return self.directory / f"router-{self.incarnations}"

    def open(self, epoch: int) -> Store:
        """Open the store in an epoch of the node."""
        self.files.mkdir(exist_ok=True)
        if not self.incarnations:
            (self.files / FILE_NAME).write_bytes(new_database())
        witness = Witness(self.directory, TOPOLOGY, NODE, boot=f"boot {self.boot:031}")
        self.store = SimulatedRouterStore(self, epoch, witness)
        self.note_flush()
        return self.store

    def note_flush(self) -> None:
        """Record that the log as it is has reached the disk."""
        self.flushed = self.log_bytes()

    def log_bytes(self) -> int:
        """Return the size of the log."""
        log = self.files / LOG
        return log.stat().st_size if log.exists() else 0

    def begin_trouble(self) -> None:
        """Have transactions fail from now on."""
        self.trouble = True
        if self.store is not None:
            self.store.interrupt_after(self.chance.randint(FEWEST, MOST))

    def end_trouble(self) -> None:
        """Have transactions succeed again."""
        self.trouble = False
        if self.store is not None:
            self.store.interrupt_after(None)

    def die(self) -> None:
        """End an incarnation as a kill does: the files stay as they are."""
        if self.store is None:
            return
        old = self.files
        self.incarnations += 1
        self.files.mkdir()
        for name in (FILE_NAME, LOG):
            if (old / name).exists():
                shutil.copy(old / name, self.files / name)
        self.store.close()
        self.store = None
        shutil.rmtree(old)

    def lose_power(self) -> None:
        """End an incarnation, and lose unflushed commits."""
        self.die()
        self.boot += 1
        if self.log_bytes() > self.flushed:
            with (self.files / LOG).open("r+b") as log:
                log.truncate(self.flushed)


class SimulatedRouterStore(Store):
    """The store of a router on a simulated disk."""

    def __init__(self, disk: RouterDisk, epoch: int, witness: Witness) -> None:
        super().__init__(disk.files / FILE_NAME, epoch, witness)
        self.disk = disk

    def interrupt_after(self, instructions: int | None) -> None:
        """Have statements fail after so many instructions; None: let them end."""
        self._database.set_progress_handler(None if instructions is None else lambda: 1, instructions or 0)

    def commit(self, steps: Iterable[Step], version: int, last_queue_id: int, published: bytes = b"") -> None:
        """Store steps, and record the flush if there was one."""
        steps = list(steps)
        super().commit(steps, version, last_queue_id, published)
        if any(step.durable for step in steps):
            self.disk.note_flush()


def is_recovered(found: Topology, stored: Topology, epoch_begins: bool) -> None:
    """Check that a router has all stored records, or in another epoch of the node those that outlive it."""
    changes = outliving(stored) if epoch_begins else stored.changes()
    expected = {named(change, epoch_begins) for change in changes}
    recovered = {named(change, epoch_begins) for change in found.changes()}
    assert recovered == expected, f"the router lacks {expected - recovered} and has {recovered - expected}"


def outliving(topology: Topology) -> Iterator[Change]:
    """Yield the records that outlive an epoch (`router.storage.store`): durable ones, and no moves."""
    changes = list(topology.changes())
    gone = {tuple(change[:3]) for change in changes if change[0] == "exchange" and not Exchange(*change[1:]).durable}
    gone |= {("queue", queue.vhost, queue.name) for queue in topology.queues() if not queue.durable}
    for change in changes:
        match change[0]:
            case "queue" | "exchange" if tuple(change[:3]) not in gone:
                yield change
            case "binding":
                binding = Binding(*change[1:])
                kind, name = binding.target
                if gone.isdisjoint((("exchange", binding.vhost, binding.source), (kind, binding.vhost, name))):
                    yield change
            case "stop" if Stop(*change[1:]).connection is None:
                yield change
            case "queue" | "exchange" | "stop" | "move":
                pass
            case _:
                yield change


def named(change: Change, epoch_begins: bool) -> str:
    """Return a record in words; in another epoch, a queue may have another slot."""
    if change[0] == "queue" and epoch_begins:
        change = dataclasses.replace(Queue(*change[1:]), slot=0).change()
    return record(change)


@cache
def new_database() -> bytes:
    """Return the file of a new database: making it takes more time than most plays use for everything else."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / FILE_NAME
        Store(path, 0).close()
        return path.read_bytes()
