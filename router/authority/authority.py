"""The authority on the topology: it refuses requests or turns them into changes, without sockets and files.

Every operation makes all its checks before its first change. The order of checks and the reply texts are RabbitMQ's.
`router.authority.operations` has the operations, their arguments and results; AMQPError refuses an operation.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b
from typing import Any, TypeAlias

from penstock.amqp.errors import amqp_error
from penstock.limits.watermarks import FlowDefaults
from penstock.node.clock import Clock
from router.authority import binding_limits, equivalence, extent, queue_arguments
from router.authority.binding_limits import BindingLimits
from router.authority.checks import (
    RESERVED,
    check_access,
    check_equivalent,
    check_exchange_arguments,
    check_new_name,
    check_not_default,
    missing,
    stripped,
)
from router.authority.delay_queues import delay_queue_arguments
from router.authority.governing import follow_bindings, governed_exchange, governed_queue
from router.authority.ledger import Ledger
from router.authority.moving import Moves
from router.authority.shards import Shards
from router.model.delaying import check_no_delay_queue, delay_queue_of
from router.model.matching import TYPES
from router.model.placement import place
from router.model.records import DELAYED_MESSAGE, Arguments, Binding, Exchange, Kind, Queue, described

QueueResult: TypeAlias = dict[str, Any]
"""The result of a request for a queue: name, queue_id, slot, shard."""


class Authority:
    """The decisions on requests. `shards` are those of the settings; `name_key` makes the names of server-named queues
    hard to guess; `bounds` limit the size and number of declarations, `limits` the bindings and their patterns.
    """

    def __init__(
        self,
        ledger: Ledger,
        shards: Iterable[int],
        defaults: FlowDefaults,
        name_key: bytes,
        clock: Clock,
        bounds: extent.Bounds = extent.Bounds(),  # noqa: B008
        limits: BindingLimits = BindingLimits(),  # noqa: B008
    ) -> None:
        self.bounds = bounds
        self.binding_limits = limits
        self.ledger = ledger
        self.topology = ledger.topology
        self.placing = Shards(ledger, shards)
        self.defaults = defaults
        self.clock = clock
        self._name_key = name_key
        self._dead_acceptors: dict[int, int] = {}
        self.moves = Moves(ledger, self.placing, clock)

    def trial(self) -> Authority:
        """Return an authority over a copy of the topology, which finds out what requests would do."""
        return Authority(
            self.ledger.copy(), self.shards, self.defaults, self._name_key, self.clock, self.bounds, self.binding_limits
        )

    @property
    def shards(self) -> list[int]:
        """The shards that queues may be placed on."""
        return self.placing.serving

    # Exchanges

    def exchange_declare(
        self,
        vhost: str,
        name: str,
        type: str,
        passive: bool,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Arguments,
        user: str | None,
    ) -> None:
        """Declare an exchange for `user`."""
        self._check_vhost(vhost)
        name = stripped(name)
        if not passive and type not in TYPES:
            raise amqp_error(503, f"unknown exchange type '{type}'")
        check_not_default(name)
        wanted = Exchange(vhost, name, type, durable, auto_delete, internal, arguments, maker=user)
        existing = self.topology.exchange(vhost, name)
        if passive:
            if existing is None:
                raise missing(wanted)
        elif existing is not None:
            for field in ("type", "durable", "auto_delete", "internal"):
                equivalence.check_field(wanted, field, getattr(wanted, field), getattr(existing, field))
            equivalence.check_arguments(wanted, ("alternate-exchange",), arguments, existing.arguments)
        else:
            check_new_name("exchange", name)
            if "alternate-exchange" in arguments:
                queue_arguments.check_exchange_name(wanted, "alternate-exchange", arguments["alternate-exchange"])
            check_exchange_arguments(wanted)
            extent.check(wanted, self.ledger.usage, self.topology, self.bounds)
            if type == DELAYED_MESSAGE:
                self._make_delay_queue(wanted)
            self.ledger.add_exchange(governed_exchange(wanted, self.topology))

    def exchange_delete(self, vhost: str, name: str, if_unused: bool) -> None:
        """Delete an exchange, if it exists."""
        self._check_vhost(vhost)
        name = stripped(name)
        check_not_default(name)
        if name.startswith(RESERVED):
            raise amqp_error(403, f"deletion of system {described('exchange', name, vhost)} not allowed")
        exchange = self.topology.exchange(vhost, name)
        if exchange is None:
            return
        if if_unused and self.topology.bindings_from(vhost, name):
            raise amqp_error(406, f"{exchange} in use")
        self.ledger.remove_exchange(exchange)
        follow_bindings(self.ledger, vhost, None, self.defaults)

    def exchange_bind(
        self, vhost: str, destination: str, source: str, key: str, arguments: Arguments, user: str | None
    ) -> None:
        """Bind an exchange to another exchange, for `user`."""
        destination = stripped(destination)
        check_not_default(destination)
        self._bind(vhost, source, "exchange", destination, key, arguments, None, user)

    def exchange_unbind(self, vhost: str, destination: str, source: str, key: str, arguments: Arguments) -> None:
        """Remove a binding between exchanges, if it exists."""
        destination = stripped(destination)
        check_not_default(destination)
        self._unbind(vhost, source, "exchange", destination, key, arguments, None)

    # Queues

    def queue_declare(
        self,
        vhost: str,
        name: str,
        passive: bool,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Arguments,
        connection: str | None,
        user: str | None,
        request: str,
    ) -> QueueResult:
        """Declare a queue for `user`. `request` identifies the request: repeated after a crash, it gets the same
        server-named queue.
        """
        if passive:
            return self.queue_lookup(vhost, name, connection)
        self._check_vhost(vhost)
        given = stripped(name)
        name = given or self._server_name(request)
        # An exclusive queue is deleted with its connection and so cannot be durable.
        durable = durable and not exclusive
        owner = connection if exclusive else None
        existing = self.topology.queue(vhost, name)
        if existing is not None:
            check_equivalent(existing, durable, auto_delete, owner, arguments)
            return queue_result(existing)
        if given:
            check_new_name("queue", name)
        return queue_result(self.make_queue(vhost, name, not given, durable, auto_delete, owner, arguments, user))

    def make_queue(
        self,
        vhost: str,
        name: str,
        server_named: bool,
        durable: bool,
        auto_delete: bool,
        owner: str | None,
        arguments: Arguments,
        user: str | None,
    ) -> Queue:
        """Make a queue, whose name has been checked."""
        subject = described("queue", name, vhost)
        queue_arguments.check_arguments(subject, arguments, self.defaults)
        kind = queue_arguments.queue_type(arguments)
        if server_named and kind != "classic":
            raise amqp_error(406, f"Cannot declare a server-named queue for type rabbit_{kind}_queue")
        queue_arguments.check_properties(subject, kind, durable, auto_delete, owner is not None)
        if owner is not None and self._is_gone(owner):
            raise amqp_error(320, f"connection {owner} is gone")
        return self._add_queue(Queue(vhost, name, 0, 0, 0, durable, auto_delete, owner, arguments, [], [], maker=user))

    def _make_delay_queue(self, exchange: Exchange) -> None:
        """Make the delay queue of an exchange that is about to be made, with the limits in its arguments."""
        name, arguments = delay_queue_of(exchange.name), delay_queue_arguments(exchange, self.defaults)
        self._add_queue(
            Queue(exchange.vhost, name, 0, 0, 0, exchange.durable, False, None, arguments, [], [], maker=exchange.maker)
        )

    def _add_queue(self, wanted: Queue) -> Queue:
        """Add a checked queue, with its place in the node."""
        shard = place(wanted.vhost, wanted.name, self.shards, self.topology.placements)
        wanted = replace(wanted, shard=shard)
        extent.check(wanted, self.ledger.usage, self.topology, self.bounds)
        slot = self.ledger.take_slot(shard)
        if slot is None:
            count = len(self.topology.queues())
            raise amqp_error(406, f"cannot declare {wanted}: the node has {count} queues, its limit (max_queues)")
        queue_id = self.ledger.next_queue_id()
        queue = governed_queue(replace(wanted, queue_id=queue_id, slot=slot), self.topology, self.defaults)
        self.ledger.add_queue(queue)
        return queue

    def _server_name(self, request: str) -> str:
        digest = blake2b(request.encode(), digest_size=16, key=self._name_key).digest()
        return f"amq.gen-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"

    def queue_lookup(self, vhost: str, name: str, connection: str | None) -> QueueResult:
        """Return a queue that a connection uses. 404 if there is none, 405 if it is exclusive to another connection."""
        self._check_vhost(vhost)
        name = stripped(name)
        queue = self.topology.queue(vhost, name)
        if queue is None:
            raise missing(described("queue", name, vhost))
        check_access(queue, connection)
        return queue_result(queue)

    def queue_bind(
        self, vhost: str, queue: str, source: str, key: str, arguments: Arguments, connection: str | None,
        user: str | None,
    ) -> None:  # fmt: skip
        """Bind a queue to an exchange, for `user`."""
        self._bind(vhost, source, "queue", stripped(queue), key, arguments, connection, user)

    def queue_unbind(
        self, vhost: str, queue: str, source: str, key: str, arguments: Arguments, connection: str | None
    ) -> None:
        """Remove a binding of a queue, if it exists."""
        self._unbind(vhost, source, "queue", stripped(queue), key, arguments, connection)

    def queue_delete(self, queue_id: int) -> None:
        """Delete a queue for its shard, which has checked if-unused and if-empty. A repeat does nothing."""
        queue = self.topology.queue_by_id(queue_id)
        if queue is not None:
            self.ledger.remove_queue(queue)

    def queue_place(self, vhost: str, name: str, shard: int | None) -> None:
        """Place queues of that name that are declared from now on: on a shard, or (None) by the hash."""
        self._check_vhost(vhost)
        if shard is not None and shard not in self.shards:
            raise amqp_error(406, f"no shard {shard}")
        known = self.topology.placements.get((vhost, name))
        if shard != (None if known is None else known.shard):
            self.ledger.place_queue(vhost, name, shard)

    def move_report(
        self, queue_id: int, epoch: int, shard: int, incarnation: int, state: str, count: int, nbytes: int,
        checksum: int, stop: list[int], reason: str,
    ) -> None:  # fmt: skip
        """Handle a shard's report on its part of a move (`router.authority.moving`)."""
        self.moves.report(queue_id, epoch, shard, incarnation, state, count, nbytes, checksum, stop, reason)

    # Ended connections

    def connection_closed(self, connection: str) -> dict[str, int]:
        """Delete the exclusive queues of a connection and return their number."""
        queues = self.topology.queues_of(connection)
        for queue in queues:
            self.ledger.remove_queue(queue)
        return {"queues": len(queues)}

    def acceptor_died(self, index: int, incarnation: int) -> int:
        """Delete the exclusive queues of an acceptor's connections, up to that incarnation. Return their number."""
        if self._dead_acceptors.get(index, 0) >= incarnation:
            return 0
        # Requests of the dead acceptor may still arrive: an exclusive queue they declare would have no owner.
        self._dead_acceptors[index] = incarnation
        gone = [connection for connection in self.topology.owners() if self._is_gone(connection)]
        return sum(self.connection_closed(connection)["queues"] for connection in gone)

    def _is_gone(self, connection: str) -> bool:
        """Whether a connection, named ACCEPTOR.INCARNATION.NUMBER, is one of a dead acceptor."""
        index, incarnation, _ = (int(part) for part in connection.split("."))
        return incarnation <= self._dead_acceptors.get(index, 0)

    # Bindings of both kinds

    def _bind(
        self,
        vhost: str,
        source: str,
        kind: Kind,
        destination: str,
        key: str,
        arguments: Arguments,
        connection: str | None,
        user: str | None,
    ) -> None:
        self._check_vhost(vhost)
        source = stripped(source)
        check_not_default(source)
        exchange = self.topology.exchange(vhost, source)
        if exchange is None:
            raise missing(described("exchange", source, vhost))
        if self._destination(vhost, kind, destination, connection) is None:
            raise missing(described(kind, destination, vhost))
        binding = Binding(vhost, source, kind, destination, key, arguments, user)
        if self.topology.binding(binding) is None:
            extent.check(binding, self.ledger.usage, self.topology, self.bounds)
            binding_limits.check(binding, exchange.type, self.topology, self.binding_limits)
        self.ledger.bind(binding)
        follow_bindings(self.ledger, vhost, destination if kind == "queue" else None, self.defaults)

    def _unbind(
        self,
        vhost: str,
        source: str,
        kind: Kind,
        destination: str,
        key: str,
        arguments: Arguments,
        connection: str | None,
    ) -> None:
        self._check_vhost(vhost)
        source = stripped(source)
        check_not_default(source)
        binding = Binding(vhost, source, kind, destination, key, arguments)
        # As in RabbitMQ, access to the queue is checked only if there is a binding to remove.
        if self.topology.exchange(vhost, source) and self.topology.binding(binding):
            self._destination(vhost, kind, destination, connection)
            self.ledger.unbind(binding)
            follow_bindings(self.ledger, vhost, destination if kind == "queue" else None, self.defaults)

    def _destination(self, vhost: str, kind: Kind, name: str, connection: str | None) -> Queue | Exchange | None:
        if kind == "exchange":
            return self.topology.exchange(vhost, name)
        queue = self.topology.queue(vhost, name)
        if queue is not None:
            check_access(queue, connection)
            check_no_delay_queue(queue)
        return queue

    def _check_vhost(self, name: str) -> None:
        if not self.topology.has_vhost(name):
            raise amqp_error(530, f"vhost {name} not found")


def queue_result(queue: Queue) -> QueueResult:
    """Return the result of a request for a queue."""
    return {"name": queue.name, "queue_id": queue.queue_id, "slot": queue.slot, "shard": queue.shard}
