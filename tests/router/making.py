"""An authority for tests, with requests as from the bus."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from penstock.limits.watermarks import FlowDefaults
from penstock.node.clock import Clock
from router.authority import vhosts
from router.authority.authority import Authority
from router.authority.ledger import Ledger
from router.authority.operations import Outcome, perform
from router.authority.slots import Slots
from router.commands.administration import Administration
from router.commands.registry import execute
from router.model.record_kind import Change
from router.model.records import SERVING, Policy
from router.model.topology import Topology
from router.storage.recovery import recover
from router.storage.store import Stored

ME, OTHER = "0.1.1", "1.1.1"
"""Two connections, each on an acceptor of its own."""

DEFAULTS: dict[str, dict[str, Any]] = {
    "exchange_declare": {
        "type": "direct", "passive": False, "durable": False, "auto_delete": False, "internal": False, "arguments": {},
        "user": "guest",
    },
    "exchange_delete": {"if_unused": False},
    "exchange_bind": {"key": "", "arguments": {}, "user": "guest"},
    "exchange_unbind": {"key": "", "arguments": {}},
    "queue_declare": {
        "passive": False, "durable": False, "exclusive": False, "auto_delete": False, "arguments": {}, "connection": ME,
        "user": "guest",
    },
    "queue_lookup": {"connection": ME},
    "queue_bind": {"key": "", "arguments": {}, "connection": ME, "user": "guest"},
    "queue_unbind": {"key": "", "arguments": {}, "connection": ME},
}  # fmt: skip


def completed(operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with defaults filled in."""
    here = {} if operation in ("queue_delete", "connection_closed", "hold_off", "move_report") else {"vhost": "/"}
    return {**here, **DEFAULTS.get(operation, {}), **arguments}


def policy(name: str = "p", pattern: str = ".*", apply_to: str = "all", priority: int = 0, operator: bool = False,
           **definition: Any) -> Policy:  # fmt: skip
    """Return a policy of vhost "/"; the keys of its definition may be written with underscores."""
    spelled = {key.replace("_", "-"): value for key, value in definition.items()}
    return Policy("/", operator, name, pattern, apply_to, priority, spelled or {"max-length": 5})


def rabbit_hash(password: str, algorithm: str = "sha256", salt: bytes = b"salt") -> str:
    """Return a password as RabbitMQ hashes it."""
    digest = hashlib.new(algorithm, salt + password.encode()).digest()
    return f"{algorithm}:{base64.b64encode(salt + digest).decode()}"


class StandingTime:
    """A clock that advances only when the test says so. The wall clock is an hour ahead of the node's."""

    WALL_AHEAD = 3600.0

    def __init__(self) -> None:
        self.us = 1_700_000_000_000_000
        self.clock = Clock(lambda: self.us, lambda: self.us + round(self.WALL_AHEAD * 1e6))

    def passes(self, seconds: float) -> None:
        """Advance both clocks."""
        self.us += round(seconds * 1e6)


class Asked:
    """An authority over vhost "/", and everything it has recorded. It runs on `time`, or on a given clock."""

    def __init__(self, shards: int = 3, queues: int = 100, clock: Clock | None = None) -> None:
        self.places, self.queues = shards, queues
        self.time = StandingTime()
        self.clock = clock or self.time.clock
        ledger = Ledger(Topology(), Slots(range(shards, shards + queues), ()), 0)
        self.authority = Authority(ledger, range(shards), FlowDefaults(), b"key", self.clock)
        for shard in range(shards):  # recorded, so that followers get them as in a snapshot
            ledger.record(["shard", shard, SERVING], durable=False)
        vhosts.add(ledger, "/")
        # The password guest; a hash that costs nothing to verify.
        ledger.record(["user", "guest", rabbit_hash("guest"), ["administrator"]], durable=True)
        ledger.record(["permission", "guest", "/", ".*", ".*", ".*"], durable=True)
        self.topology = ledger.topology
        self.recorded = self.authority.ledger.take_steps()
        self.requests = 0

    def ask(self, operation: str, **arguments: Any) -> Outcome:
        """Carry out an operation; return its outcome."""
        self.requests += 1
        outcome = perform(self.authority, operation, completed(operation, arguments), f"asked/{self.requests}")
        self.recorded += self.authority.ledger.take_steps()
        return outcome

    def command(self, command: str, /, **arguments: Any) -> Any:
        """Return the result of a command of the control socket. Refusal if it was refused."""
        result = execute(self.administration(), command, arguments)
        self.recorded += self.authority.ledger.take_steps()
        return result

    def administration(self) -> Administration:
        """Return the administration that commands work on."""
        return Administration(self.authority)

    def done(self, operation: str, **arguments: Any) -> Any:
        """Return the result of an operation; AssertionError if it was refused."""
        outcome = self.ask(operation, **arguments)
        assert outcome.error is None, outcome
        return outcome.result

    def refused(self, operation: str, **arguments: Any) -> tuple[int, str]:
        """Return reply code and text of a refusal; AssertionError if it was not refused, or changed something all the
        same.
        """
        before = len(self.recorded)
        outcome = self.ask(operation, **arguments)
        assert outcome.error is not None, outcome
        assert len(self.recorded) == before
        code, text = outcome.error
        return code, text

    def start_again(self, version: int) -> None:
        """Start another incarnation of the authority, from all that was recorded up to that version."""
        before = self.authority.ledger
        stored = Stored(version, before.last_queue_id, b"key", list(self.topology.changes()), seeded=True)
        shards, defaults = range(self.places), self.authority.defaults
        ledger = recover(stored, shards, self.places, self.queues, defaults)
        self.authority = Authority(ledger, shards, defaults, b"key", self.clock)
        self.topology = ledger.topology
        self.recorded += ledger.take_steps()

    def acceptor_died(self, index: int, incarnation: int) -> int:
        """Delete the exclusive queues of a dead acceptor's connections; return how many."""
        queues = self.authority.acceptor_died(index, incarnation)
        self.recorded += self.authority.ledger.take_steps()
        return queues

    def changed(self, operation: str, **arguments: Any) -> list[Change]:
        """Return the changes that an operation made."""
        before = len(self.recorded)
        self.done(operation, **arguments)
        return [step.change for step in self.recorded[before:]]
