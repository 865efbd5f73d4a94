"""One incarnation of a joined node's router: its core, and the store of its topology."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.limits.watermarks import FlowDefaults
from penstock.memory.gauges import Gauges
from penstock.node.clock import Clock
from router.authority import vhosts
from router.authority.authority import Authority
from router.authority.ledger import Ledger, Step
from router.authority.operations import Outcome, perform
from router.commands.administration import Administration
from router.commands.registry import execute
from router.core import RouterCore, Turn
from router.model.record_kind import Change
from router.model.topology import Topology
from router.processes import Processes
from router.storage.recovery import recover
from router.storage.store import Store, Stored, StoreError
from tests.router.making import completed, rabbit_hash


class MemoryStore(Store):
    """A store that keeps the topology in memory."""

    def __init__(self) -> None:
        self.last = (0, 0)
        self.kept: list[Change] = []
        self.turns: list[tuple[int, bytes]] = []

    def load(self, through: Any = iter) -> Stored:
        """Return the topology as stored last."""
        version, last_queue_id = self.last
        changes = list(Topology(version, self.kept).changes())
        return Stored(version, last_queue_id, b"", changes, seeded=bool(version), turns=self.turns)

    def commit(self, steps: Iterable[Step], version: int, last_queue_id: int, published: bytes = b"") -> None:
        """Store the steps that lead to a version."""
        self.kept += [step.change for step in steps]
        self.last = version, last_queue_id
        self.turns.append((version, published))

    def close(self) -> None:
        """Do nothing: another incarnation may load what this one has stored."""


class Router:
    """One incarnation of the router. The names that its queues get from the server depend on `epoch`, not on chance."""

    def __init__(self, store: Store, epoch: int, shards: int, queues: int, gauges: Gauges, clock: Clock) -> None:
        """`shards` are those that a new node has; there may be as many as the gauges have places for."""
        self.store = store
        stored = store.load()
        open_slots = {slot for slot in gauges.queue_slots() if slot >= gauges.shards}
        defaults = FlowDefaults()
        ledger = recover(stored, range(shards), gauges.shards, queues, defaults, open_slots)
        authority = Authority(ledger, range(shards), defaults, b"key %d" % epoch, clock)
        self.core = RouterCore(authority, store, stored.turns)
        self.processes = Processes(self.core, gauges)
        authority.placing.places = gauges.shards
        self.asked = 0
        if not stored.seeded:
            seed(ledger)

    @property
    def authority(self) -> Authority:
        """The authority over the topology."""
        return self.core.authority

    @property
    def topology(self) -> Topology:
        """The topology, with the changes of the turn in progress."""
        return self.core.authority.topology

    def ask(self, operation: str, /, **arguments: Any) -> Outcome:
        """Carry out an operation in the turn in progress; return its outcome."""
        self.asked += 1
        return perform(self.authority, operation, completed(operation, arguments), f"asked/{self.asked}")

    def command(self, command: str, /, **arguments: Any) -> Any:
        """Carry out a command in the turn in progress; return its result. Refusal if it is refused."""
        return execute(Administration(self.authority), command, arguments)

    def finish_turn(self) -> Turn | None:
        """Finish the turn in progress; None if its changes cannot be stored, and wait."""
        try:
            return self.core.finish_turn()
        except StoreError:
            return None


def seed(ledger: Ledger) -> None:
    """Make the vhost and the user of a new node. The hash of the user's password, guest, costs nothing to verify."""
    vhosts.add(ledger, "/")
    ledger.record(["user", "guest", rabbit_hash("guest"), ["administrator"]], durable=True)
    ledger.record(["permission", "guest", "/", ".*", ".*", ".*"], durable=True)
