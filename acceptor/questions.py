"""The questions that an acceptor answers to the node's operator, about connections, held channels and its consumers.

    question    arguments   answer
    connections             as in `acceptor.amqp.listing`
    terms       connections {connection: {client_properties, frame_max, channel_max}} of those that are open
    sums                    as in `acceptor.amqp.listing`
    all_consumers           as in `acceptor.amqp.listing`
    channels                as in `acceptor.amqp.listing`
    publishing              as in `acceptor.holding.publishing_channels`
    held                    [{connection, peer, client, user, vhost, channel, held_seconds, exchange (of its last
                            publish) | None, notified_by (flow, blocked),
                            withheld, parked_bytes, parked_bytes_connection, paused, ignores_flow, spent,
                            rung: {name, seconds, next, next_in} | None, causes: [cause]}]
    entangled               the same, with `party` and `settles`: all channels of connections that consume or have
                            unacked deliveries (`settles`); of others one for each party and set of causes, held for
                            the longest
    unread                  [{connection, peer, client, user, vhost, unread_seconds, reason, bytes}]: connections that
                            are not read for the memory that they use (`acceptor.budgets.unread`)
    logins                  [{user, address, wrong (passwords), seconds}]: logins refused without a check for so long
    certificates            [{listener, certificate (file), subject, issuer, names, expires, seconds_left}]: those that
                            listeners with TLS serve (answered by the process)
    headcount               [{whose, name, limit, used}]: connections and channels (`acceptor.budgets.headcount`)
    ledger                  as in `acceptor.holding.ledger`
    queue       vhost, name {id, shard, ready} | None if there is no such queue
    publishes               as in `acceptor.routing.counting`, of all channels since an operator began to ask
    spans       after       as in `penstock.tracing.spans.Spans.report`
    consumers   ids         [{id, connection, peer, client, user, vhost, channel, tag, party}], of those that exist

    close       connection, whether there was that connection, which is closed now
                reason
    refuse      connection, whether the channel was held, and the queue refuses its publishes from now on
                channel, id (`acceptor.holding.escalation`)

    cause: {kind: "queue", vhost, name, slot, shard, id, text} | {kind: "shard", shard, text} | {kind: "limit", text}
           | {kind: "rate", resumes_in (seconds, for all waiting messages), text} | {kind: "vhost", vhost, text}
           | {kind: "rebalance", vhost, name, id, source, target (shards), text}
           | {kind: "stop", number, until (seconds since 1970) | None, text}

A channel is held from the notification of its client until nothing of it waits. `withheld` counts runs of publishes
whose confirms wait for room; `spent` says which bound of the connection is used up, None while none is
(`acceptor.holding.last_resort`). Connections of a user from one host are one `party`: perhaps one program.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from acceptor.amqp import listing
from acceptor.clients.channel_state import ChannelState
from acceptor.gates.gate import Gate
from acceptor.gates.queue_gate import QueueGate
from acceptor.gates.rates import RateGate
from acceptor.holding import publishing_channels
from acceptor.holding.publishing_channels import state
from penstock.control.questions import Question

if TYPE_CHECKING:
    from acceptor.core import AcceptorCore


AUDITED = frozenset({"close"})
"""Those that change something for an administrator."""


def questions(core: AcceptorCore) -> dict[str, Question]:
    """Return the questions by name, each with its function and the types of its arguments."""
    return {
        "connections": (lambda: listing.connections(core.state), {}),
        "terms": (partial(listing.terms, core.state), {"connections": list}),
        "channels": (lambda: listing.channels(core.state), {}),
        "sums": (lambda: listing.sums(core.state), {}),
        "all_consumers": (lambda: listing.consumers(core.state), {}),
        "close": (partial(listing.close, core.state), {"connection": str, "reason": str}),
        "publishing": (lambda: publishing_channels.channels(core.state, core.routes), {}),
        "held": (lambda: held(core), {}),
        "unread": (core.budgets.unread.report, {}),
        "logins": (core.authentication.passwords.report, {}),
        "headcount": (core.headcount.report, {}),
        "entangled": (lambda: entangled(core), {}),
        "ledger": (lambda: core.holding.books.ledger.report(core.state.now), {}),
        "queue": (partial(queue, core), {"vhost": str, "name": str}),
        "publishes": (lambda: core.routes.count(core.state.now), {}),
        "consumers": (lambda ids: consumers(core, ids), {"ids": list}),
        "spans": (core.state.tracing.spans.report, {"after": int}),
        "refuse": (partial(refuse, core), {"connection": str, "channel": int, "id": int}),
    }


def queue(core: AcceptorCore, vhost: str, name: str) -> dict[str, int] | None:
    """Answer the question `queue`."""
    found = core.topology.queue(vhost, name)
    if found is None:
        return None
    gauge = core.state.gauges.queue_read(found.slot)
    ready = gauge.ready if gauge is not None and gauge.queue_id == found.queue_id else 0
    return {"id": found.queue_id, "shard": found.shard, "ready": ready}


def held(core: AcceptorCore) -> list[dict[str, Any]]:
    """Answer the question `held`."""
    withheld = _withheld(core)
    return [_held(core, channel, withheld) for channel in core.holding.holds.held]


def entangled(core: AcceptorCore) -> list[dict[str, Any]]:
    """Answer the question `entangled`: the held channels for which others may wait in turn, to find deadlocks."""
    withheld = _withheld(core) if core.holding.holds.held else {}
    found, seen = [], set()
    for channel in core.holding.holds.held:
        party, settles = _party(channel), channel.connection.settles()
        if not settles:
            kind = party, *map(id, _causes(channel, withheld))
            if kind in seen:
                continue
            seen.add(kind)
        found.append({**_held(core, channel, withheld), "party": party, "settles": settles})
    return found


def consumers(core: AcceptorCore, ids: list[Any]) -> list[dict[str, Any]]:
    """Answer the question `consumers`."""
    known = ((id, core.delivery.consumers.get(id)) for id in ids if isinstance(id, int))
    return [
        {"id": id, **consumer.channel.whose(), "tag": consumer.tag, "party": _party(consumer.channel)}
        for id, consumer in known
        if consumer
    ]


def refuse(core: AcceptorCore, connection: str, channel: int, id: int) -> bool:
    """Have a queue refuse the publishes of a held channel. Return False if the channel is not held."""
    found = core.state.connections.get(connection)
    held, queue_gate = found and found.channels.get(channel), core.gates.queue_gates.get(id)
    if held is None or queue_gate is None or held not in core.holding.holds.held:
        return False
    core.holding.escalations.refuse(held, queue_gate)
    return True


def _withheld(core: AcceptorCore) -> dict[Any, dict[QueueGate, None]]:
    """Return, by channel, the queues and limits for which its confirms wait."""
    found: dict[Any, dict[QueueGate, None]] = {}
    for queue_gate in core.gates.limited():
        for span in (span for span in queue_gate.withheld if not span.done):
            found.setdefault(span.channel, {})[queue_gate] = None
    return found


def _held(core: AcceptorCore, channel: ChannelState, withheld: dict[Any, dict[QueueGate, None]]) -> dict[str, Any]:
    connection, last_resort = channel.connection, core.holding.last_resort
    return {
        **state(channel),
        "exchange": None if channel.route is None else channel.route.exchange,
        "notified_by": channel.notified_by(),
        "withheld": channel.withheld,
        "parked_bytes_connection": connection.kept.parked,
        "paused": connection in core.holding.drip.paused,
        "ignores_flow": connection.notices.ignores_flow,
        "spent": last_resort.bound(connection) if connection in last_resort.spent else None,
        "rung": core.holding.escalations.state(channel),
        "causes": [_cause(core, gate) for gate in _causes(channel, withheld)],
    }


def _party(channel: ChannelState) -> str:
    return f"{channel.connection.user} at {channel.connection.client.host}"


def _causes(channel: ChannelState, withheld: dict[Any, dict[QueueGate, None]]) -> dict[Gate, None]:
    """Return the gates at which a channel or its confirms wait."""
    causes: dict[Gate, None] = dict.fromkeys([*channel.gates, *withheld.get(channel, ())])
    if not causes and channel.held_by is not None:
        causes[channel.held_by] = None
    return causes


def _cause(core: AcceptorCore, gate: Gate) -> dict[str, Any]:
    cause = gate.describe()
    facts = dict(cause.facts)
    if cause.kind == "queue":
        queue = core.state.topology.queue_by_id(cause.queue_id)
        facts |= {"vhost": cause.vhost, "name": cause.queue, "id": cause.queue_id, "shard": queue and queue.shard}
    elif cause.kind == "shard":
        facts["shard"] = cause.shard
    elif isinstance(gate, RateGate):
        facts["resumes_in"] = round(gate.resumes_in(), 1)
    elif facts.get("until"):
        facts["until"] += core.state.origin.wall - core.state.origin.node
    return {"kind": cause.kind, **facts, "text": cause.text}
