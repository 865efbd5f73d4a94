"""Overtaking by destination: on a channel that asks for it, publishes for free queues pass parked ones.

The order of publishes to one queue stays: a publish passes only those that go to none of its own queues, and no method.
So a channel that feeds a full and a free queue waits at the full one's gate only with publishes for that queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from acceptor.clients.channel_stage import LIVE
from acceptor.clients.parked import ParkedMethod, ParkedRun
from acceptor.gates.rights import Undecided
from acceptor.routing.routing import Unfinished
from penstock.amqp.errors import AMQPError
from router.model.policies import policy_for
from router.model.policy_keys import BY_DESTINATION, OVERTAKING, USER
from router.model.topology import Topology

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.gates.gate import Gate
    from acceptor.gates.permissions import Access
    from acceptor.routing.routes import Routes


def asked(topology: Topology, access: Access, properties: Mapping[str, object]) -> bool:
    """Whether a connection asks for overtaking, by its client-properties, or a policy for its user does."""
    if properties.get(OVERTAKING) == BY_DESTINATION:
        return True
    policy = policy_for(topology, access.vhost, USER, access.user)
    return policy is not None and policy.definition.get(OVERTAKING) == BY_DESTINATION


class Overtaking:
    """Overtaking on the channels of an acceptor. `cause_changes` is called where a channel waits at other gates."""

    def __init__(self, routes: Routes, cause_changes: Callable[[ChannelState], None]) -> None:
        self.routes = routes
        self.cause_changes = cause_changes

    def may_pass(self, channel: ChannelState, run: ParkedRun) -> bool:
        """Whether publishes that have just come may pass everything that is parked."""
        if channel.inbox.methods or channel.transaction is not None:
            return False
        blocked, wanted = self.blocked(channel), self.destinations(channel, run)
        return blocked is not None and wanted is not None and blocked.isdisjoint(wanted)

    def spares(self, channel: ChannelState, queue: int) -> bool:
        """Whether it is known that no parked publish goes to a queue."""
        blocked = self.blocked(channel)
        return blocked is not None and queue not in blocked

    def blocked(self, channel: ChannelState) -> set[int | str] | None:
        """Return the queues that parked publishes go to; None if that is not known of all of them."""
        parked = {(item.address, item.further): item for item in channel.inbox if isinstance(item, ParkedRun)}
        blocked: set[int | str] = set()
        for item in parked.values():
            queues = self.destinations(channel, item)
            if queues is None:
                return None
            blocked |= queues
        return blocked

    def destinations(self, channel: ChannelState, run: ParkedRun) -> frozenset[int | str] | None:
        """The queues that a run goes to; None where each message has a route of its own, or none is known yet."""
        try:
            route = self.routes.route_for(channel, run)
        except (AMQPError, Undecided):
            return None
        if route is None or route.by_properties:
            return None
        return frozenset(queue for target in route.targets for queue in target.queues)

    def pump(self, channel: ChannelState, most: int) -> None:
        """Process the inbox, publishing at most `most` messages, and none to a queue for which earlier ones wait."""
        before = len(channel.inbox)
        self.go_through(channel, most)
        if channel.gates and not channel.runs_at_gates() and len(channel.inbox) < before:
            self.leave_passed(channel)

    def go_through(self, channel: ChannelState, most: int) -> None:
        blocked: set[int | str] = set()
        at = 0
        while at < len(channel.inbox) and channel.running is None and channel.stage in LIVE:
            item = channel.inbox[at]
            if isinstance(item, ParkedMethod):
                if at:
                    return
                channel.unpark()
                channel.handle(item.method, item.arguments)
                continue
            queues = self.destinations(channel, item)
            if at and (queues is None or not blocked.isdisjoint(queues)):
                if queues is None:
                    return
                blocked |= queues
                at += 1
                continue
            most = channel.forward(item, most)
            if item.count:
                if queues is None:
                    return
                blocked |= queues
                at += 1
            elif at < len(channel.inbox) and channel.inbox[at] is item:
                channel.unpark(at)

    def leave_passed(self, channel: ChannelState) -> None:
        """Leave the gates that no parked publish passes: a run that waited at one may have been sent meanwhile."""
        parked = {(item.address, item.further) for item in channel.inbox if isinstance(item, ParkedRun)}
        ahead: set[Gate] = set()
        for address, further in parked:
            try:
                route = self.routes.find(channel, address, further)
            except (AMQPError, Unfinished):
                return
            if route.by_properties:
                return
            ahead.update(route.gates_for(channel.connection.id))
        for gate in [gate for gate in channel.gates if gate not in ahead]:
            channel.leave_gate(gate)
        self.cause_changes(channel)
