"""Class tx: publishes and settlements that take effect together (AMQP 0-9-1, 1.9). See `acceptor.transaction`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.inlet import Gate, Inlet
from acceptor.methods.asking import AtGates, Handling, Until
from acceptor.transaction import Committing, Transaction
from penstock.amqp.errors import amqp_error

if TYPE_CHECKING:
    from acceptor.channel import Channel


def select(channel: Channel, arguments: dict[str, Any]) -> None:
    if channel.confirms is not None:
        raise amqp_error(406, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel.core)
    channel.send("tx_select_ok")


def commit(channel: Channel, arguments: dict[str, Any]) -> Handling:
    """The next transaction begins at once: what comes from now on is not of this one."""
    transaction = begun(channel)
    channel.transaction = Transaction(channel.core)
    try:
        while closed := transaction.closed_gates(channel, pieces := transaction.pieces(channel)):
            if channel.core.settings.flow.tx_when_full == "reject":
                refuse_if_full(closed)
            for gate in closed:
                if isinstance(gate, Inlet) and not gate.in_flight:
                    channel.held_at(gate)
            yield AtGates(closed)
        committing = Committing(channel, transaction)
        committing.leave(pieces)
    finally:
        transaction.forget()
    yield Until(committing.start)
    error = committing.error()
    if error is not None:
        raise error
    channel.send("tx_commit_ok")


def refuse_if_full(closed: list[Gate]) -> None:
    """AMQPError unless it is only what is under way that leaves no room."""
    for gate in closed:
        if gate.is_saturated() or (isinstance(gate, Inlet) and not gate.in_flight):
            raise amqp_error(406, f"transaction rolled back, no room: {gate}")


def rollback(channel: Channel, arguments: dict[str, Any]) -> None:
    begun(channel).rollback(channel.unacked)
    channel.transaction = Transaction(channel.core)
    channel.send("tx_rollback_ok")


def begun(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise amqp_error(406, "channel is not transactional")
    return channel.transaction


def settle(channel: Channel, arguments: dict[str, Any]) -> None:
    """Settlements that had to wait behind a method: the scanner made a run of them."""
    run = arguments["run"]
    channel.settled(run, begun(channel).settle(channel.unacked, run))


HANDLERS = {"tx_select": select, "tx_commit": commit, "tx_rollback": rollback, "basic_ack": settle}
