"""What a client was told of stops: by channel.flow on a channel, by connection.blocked on its connection."""

from __future__ import annotations

from acceptor.clients.flow_compliance import FlowCompliance
from acceptor.gates.queue_gate import QueueGate


class ChannelNotices:
    """What a client was told of the stop of one channel.

    `flow`: channel.flow has stopped it, and `compliance` is how the client obeys. `blocked`: the channel is one for
    which its connection is blocked. `early` is the gate of a queue whose stop it was told of before a publish waited.
    """

    __slots__ = ("blocked", "compliance", "early", "flow")

    def __init__(self) -> None:
        self.flow = False
        self.blocked = False
        self.early: QueueGate | None = None
        self.compliance = FlowCompliance()


class BlockedNotice:
    """The connection.blocked of a connection: the number of `channels` that it is for, when it was sent last (seconds
    of the acceptor's clock), and its reason.
    """

    __slots__ = ("channels", "reason", "sent_at")

    def __init__(self) -> None:
        self.channels = 0
        self.sent_at = 0.0
        self.reason = ""
