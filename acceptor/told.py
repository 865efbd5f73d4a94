"""What an acceptor tells of who is held, and of its consumers, to the node's operator.

    question    arguments   answer
    sessions                as in `acceptor.sessions`
    held                    [{connection, peer, client, user, vhost, channel, held_seconds, told (flow, blocked),
                            withheld, parked_bytes, parked_bytes_connection, paused, causes: [cause]}]
    consumers   ids         [{id, connection, peer, client, user, vhost, channel, tag}], of those that are there

    cause: {kind: "queue", vhost, name, slot, shard, id, text} | {kind: "shard", shard, text} | {kind: "limit", text}
           | {kind: "vhost", vhost, text} | {kind: "stop", number, until (seconds since 1970) | None, text}

A session is held from when its client was told until nothing of it waits. `withheld` counts runs of publishes whose
confirms wait for room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.inlet import Gate, Inlet
from acceptor.pools import Manifold, Pool
from acceptor.pressure import VhostGate
from acceptor.sessions import sessions, state, whose
from acceptor.shard_link import ShardLink
from acceptor.stops import StopGate
from penstock.questions import Question

if TYPE_CHECKING:
    from acceptor.channel import Channel
    from acceptor.core import AcceptorCore


def questions(core: AcceptorCore) -> dict[str, Question]:
    return {
        "sessions": (lambda: sessions(core), {}),
        "held": (lambda: held(core), {}),
        "consumers": (lambda ids: consumers(core, ids), {"ids": list}),
    }


def held(core: AcceptorCore) -> list[dict[str, Any]]:
    withheld = _withheld(core)
    return [_held(channel, withheld) for channel in core.throttle.held]


def consumers(core: AcceptorCore, ids: list[Any]) -> list[dict[str, Any]]:
    known = ((id, core.delivery.consumers.get(id)) for id in ids if isinstance(id, int))
    return [{"id": id, **whose(consumer.channel), "tag": consumer.tag} for id, consumer in known if consumer]


def _withheld(core: AcceptorCore) -> dict[Any, dict[Inlet, None]]:
    """By channel, the queues that its confirms wait for."""
    found: dict[Any, dict[Inlet, None]] = {}
    for inlet in core.inlets.values():
        for span in inlet.withheld:
            found.setdefault(span.session, {})[inlet] = None
    return found


def _held(channel: Channel, withheld: dict[Any, dict[Inlet, None]]) -> dict[str, Any]:
    connection, core = channel.connection, channel.core
    causes: dict[Gate, None] = dict.fromkeys([*channel.gates, *withheld.get(channel, ())])
    if not causes and channel.held_by is not None:
        causes[channel.held_by] = None
    return {
        **state(channel),
        "told": [
            *(["flow"] if channel.told_flow else []),
            *(["blocked"] if connection.has_capability("connection.blocked") else []),
        ],
        "withheld": channel.withheld,
        "parked_bytes_connection": connection.parked_octets,
        "paused": connection in core.throttle.paused,
        "causes": [_cause(core, gate) for gate in causes],
    }


def _cause(core: AcceptorCore, gate: Gate) -> dict[str, Any]:
    if isinstance(gate, Manifold):
        gate = gate.pool
    if isinstance(gate, Pool):
        return {"kind": "limit", "text": str(gate)}
    if isinstance(gate, VhostGate):
        return {"kind": "vhost", "vhost": gate.vhost, "text": str(gate)}
    if isinstance(gate, Inlet):
        queue = core.topology.queue_by_id(gate.id)
        place = {"shard": queue.shard if queue else None, "slot": gate.slot, "id": gate.id}
        return {"kind": "queue", "vhost": gate.vhost, "name": gate.name, **place, "text": str(gate)}
    if isinstance(gate, StopGate):
        return {"kind": "stop", "number": gate.stop.number, "until": gate.stop.until, "text": str(gate)}
    assert isinstance(gate, ShardLink)
    return {"kind": "shard", "shard": gate.index, "text": str(gate)}
