"""How a channel receives messages, beside its consumers."""

from __future__ import annotations

from acceptor.clients.reply_consumer import ReplyConsumer


class Receiving:
    """A client's requests about a channel's deliveries: the `prefetch` of consumers started later (messages, 0 for
    any number), whether they are `active` (channel.flow), and its `reply_consumer`.
    """

    __slots__ = ("active", "prefetch", "reply_consumer")

    def __init__(self, prefetch: int) -> None:
        self.prefetch = prefetch
        self.active = True
        self.reply_consumer: ReplyConsumer | None = None
