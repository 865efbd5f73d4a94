"""The notices of stops that a client has: by channel.flow on a channel, by connection.blocked on its connection."""

from __future__ import annotations

from acceptor.clients.flow_compliance import FlowCompliance
from acceptor.gates.queue_gate import QueueGate


class ChannelNotices:
    """The notices of the stop of one channel.

    `flow`: channel.flow has stopped it, and `compliance` is how the client obeys. `blocked`: the channel is one for
    which its connection is blocked. `early` is the gate of a queue of whose stop the client was notified before a
    publish waited.
    """

    __slots__ = ("blocked", "compliance", "early", "flow")

    def __init__(self) -> None:
        self.flow = False
        self.blocked = False
        self.early: QueueGate | None = None
        self.compliance = FlowCompliance()


class ConnectionNotices:
    """The notices of the stops of all its channels.

    connection.blocked stands for `blocked_channels` channels, and was sent last at `sent_at` (seconds of the acceptor's
    clock), with a `reason`. A client that `ignores_flow` has published on, and is sent channel.flow no more.
    """

    __slots__ = ("blocked_channels", "ignores_flow", "reason", "sent_at")

    def __init__(self) -> None:
        self.blocked_channels = 0
        self.sent_at = 0.0
        self.reason = ""
        self.ignores_flow = False
