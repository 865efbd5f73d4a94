"""A reply consumer as its channel knows it (see `penstock.amqp.replies`)."""

from __future__ import annotations

from penstock.amqp.encode_cy import DELIVER


class ReplyConsumer:
    """The reply consumer of a channel. `untaken` counts bytes written while its socket accepted nothing."""

    __slots__ = ("name", "prefix", "tag", "untaken")

    def __init__(self, tag: str, name: str) -> None:
        data = tag.encode("utf-8", "surrogateescape")
        self.tag = tag
        self.name = name
        self.prefix = DELIVER + bytes([len(data)]) + data
        self.untaken = 0
