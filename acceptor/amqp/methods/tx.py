"""Class tx: publishes and settlements that take effect together (AMQP 0-9-1, 1.9). See
`acceptor.transactions.transaction`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

from acceptor.clients.asking import Answer, AtGates, Handling, ToRouter, ToShard, Until
from acceptor.gates.gate import Gate
from acceptor.gates.queue_gate import QueueGate
from acceptor.transactions.transaction import Committing, Piece, Transaction
from penstock.amqp.errors import amqp_error
from penstock.limits.features import QueueFeatures

if TYPE_CHECKING:
    from acceptor.amqp.channel import Channel


def select(channel: Channel, arguments: dict[str, Any]) -> None:
    """Make the channel transactional. 406 if it has confirms on."""
    if channel.confirms is not None:
        raise amqp_error(406, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel, channel.services.accounts)
    channel.send("tx_select_ok")


def commit(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """Commit the transaction, and answer when that is done. The next one begins at once: later methods belong to it."""
    transaction = begun(channel)
    channel.transaction = Transaction(channel, channel.services.accounts)
    assert channel.running is not None
    channel.running.committing = transaction
    committing = Committing(channel, transaction)
    try:
        committing.leave((yield from find_room(channel, transaction, committing)))
    finally:
        transaction.forget()
        if channel.running is not None:
            channel.running.committing = None
    yield Until(committing.start)
    if committing.full is not None:
        raise committing.no_room()
    channel.send("tx_commit_ok")


def find_room(
    channel: Channel, transaction: Transaction, committing: Committing
) -> Generator[ToRouter | ToShard | AtGates | Until, Answer, list[Piece]]:
    """Wait until all of it may leave; return the pieces in which it leaves. AMQPError if a queue refuses it."""
    services, topology = channel.services, channel.acceptor.topology
    while True:
        pieces = yield from transaction.pieces(channel, services.publishing)
        while lacking := transaction.lacking(channel, pieces, services.moves):
            refuse_if_full(channel, lacking)
            for gate in lacking:
                if isinstance(gate, QueueGate) and not gate.in_flight:
                    channel.held_at(gate)
            services.replacing.wait(channel, lacking)
            try:
                yield AtGates(list(lacking))
            finally:
                services.replacing.leave(channel)
            pieces = yield from transaction.pieces(channel, services.publishing)
        version = topology.version
        yield from committing.reserve(pieces)
        if not committing.reserved:
            return pieces
        if version == topology.version and not transaction.lacking(channel, pieces, services.moves):
            return pieces
        yield from committing.release()


def refuse_if_full(channel: Channel, closed: Iterable[Gate]) -> None:
    """Raise 406 if the transaction is not to wait, unless only messages in flight leave no room."""
    acceptor = channel.acceptor
    for gate in closed:
        full = gate.is_saturated() or (isinstance(gate, QueueGate) and not gate.in_flight)
        queue = acceptor.topology.queue_by_id(gate.id) if isinstance(gate, QueueGate) else None
        own = QueueFeatures.from_wire(queue.features).tx_when_full if queue else None
        if channel.refusing is gate or (full and (own or acceptor.settings.flow.tx_when_full) == "reject"):
            raise amqp_error(406, f"transaction rolled back, no room: {gate}")


def rollback(channel: Channel, arguments: dict[str, Any]) -> None:
    """Roll back the transaction and begin another one."""
    begun(channel).rollback(channel)
    channel.transaction = Transaction(channel, channel.services.accounts)
    channel.send("tx_rollback_ok")


def begun(channel: Channel) -> Transaction:
    """Return the channel's transaction. 406 if it has none."""
    if channel.transaction is None:
        raise amqp_error(406, "channel is not transactional")
    return channel.transaction


def settle(channel: Channel, arguments: dict[str, Any]) -> None:
    """Apply settlements that had to wait behind a method: the scanner made a run of them."""
    run = arguments["run"]
    channel.settled(run, begun(channel).settle(channel, run))


HANDLERS = {"tx_select": select, "tx_commit": commit, "tx_rollback": rollback, "basic_ack": settle}
