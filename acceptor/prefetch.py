"""The prefetch limit that all consumers of a channel share (basic.qos with global, as RabbitMQ has it).

While the channel consumes from one shard, that shard keeps the limit. From the second one on it is kept here: a shard
that could send more, if only it was allowed to, says that it is *hungry* and is *granted* a number of messages. A grant
is good for one turn of the shard, which says so when it is *spent*, used or not. Thus what is outstanding and what is
granted never exceed the limit together, and no room is tied up where nothing is ready.

Of the octets that they may have in hand (`amqp.unacked_bytes`) each shard that the channel has consumed from keeps an
equal part: shards know what their messages count, and a part is for one message at least.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from acceptor.asking import Answer, Asking, Failing, ask_shard, has_failed
from acceptor.shard_link import ShardLink
from acceptor.unacked_cy import UnackedTags
from penstock import bus
from penstock.settings import Settings

UNLIMITED = 0
BY_GRANTS = -1


class Shards(Protocol):
    """The acceptor, as far as it knows shards, and the settings."""

    @property
    def settings(self) -> Settings: ...

    @property
    def links(self) -> list[ShardLink]: ...

    @property
    def sharing(self) -> dict[int, SharedPrefetch]: ...

    def tell(self, shard: int, *operation: Any) -> None: ...

    def ask_at(self, shard: int, operation: list[Any], resume: Callable[[Answer], None]) -> None: ...


class Consuming(Protocol):
    """The channel that a limit is of."""

    @property
    def acceptor(self) -> Shards: ...

    @property
    def connection(self) -> Failing: ...

    @property
    def group(self) -> int: ...

    @property
    def unacked(self) -> UnackedTags: ...


class SharedPrefetch:
    """The limit of one channel, 0 for none. `told` is what its shards know of it: that value, or BY_GRANTS.

    `shards` are all that it ever consumed from: what they sent is outstanding though the consumers be gone. So are
    messages that were settled in a transaction which is not committed: they are `uncommitted`.
    """

    def __init__(self, channel: Consuming) -> None:
        self.channel = channel
        self.limit = UNLIMITED
        self.told = UNLIMITED
        self.granting = False
        self.uncommitted = 0
        self.shards: set[int] = set()
        self.granted: dict[int, int] = {}
        self.hungry: dict[int, None] = {}

    @property
    def octets(self) -> int:
        """What its consumers may have in hand from each shard, as messages count whole; 0 is no limit."""
        return -(-self.channel.acceptor.settings.amqp.unacked_bytes // max(len(self.shards), 1))

    def tell_octets(self) -> None:
        """It consumes from more shards, or from fewer. A new one will hear it with its first consumer."""
        octets = self.octets
        if octets:
            for shard in self.shards:
                self.channel.acceptor.tell(shard, bus.UNACKED, self.channel.group, octets)

    def change(self, limit: int) -> Asking:
        """Have another limit; once this returns nobody sends beyond it."""
        lower = 0 < limit < self.limit
        self.limit = limit
        if lower or not self.granting or not limit:
            yield from self.tell()
        self.serve()

    def join(self, shard: int) -> Asking:
        """A consumer is about to be attached to a shard."""
        if shard not in self.shards:
            self.shards.add(shard)
            self.tell_octets()
            if self.limit and len(self.shards) > 1 and not self.granting:
                yield from self.tell()
                self.serve()

    def moved(self, shard: int) -> None:
        """A queue that the channel consumes from has moved to that shard: who keeps the limit may be another."""
        if shard not in self.shards:
            self.shards.add(shard)
            self.tell_octets()
        if not self.limit or len(self.shards) < 2 or self.told == BY_GRANTS:
            return
        acceptor = self.channel.acceptor
        self.told = BY_GRANTS
        acceptor.sharing[self.channel.group] = self
        awaited = set(self.shards)

        def told(one: int, answer: Answer) -> None:
            if has_failed(self.channel.connection, answer.error):
                return
            awaited.discard(one)
            if not awaited:
                self.granting = self.told == BY_GRANTS
                self.serve()

        for one in sorted(self.shards):
            acceptor.ask_at(one, [bus.LIMIT, 0, self.channel.group, self.told], partial(told, one))

    def tell(self) -> Asking:
        """Let the shards know who keeps the limit. After their answers all that they sent by another one is here."""
        self.told = BY_GRANTS if self.limit and len(self.shards) > 1 else self.limit
        if self.told == BY_GRANTS:  # from their answers on shards may be hungry
            self.channel.acceptor.sharing[self.channel.group] = self
        for shard in sorted(self.shards):
            yield from ask_shard(shard, bus.LIMIT, self.channel.group, self.told)
        self.granting = self.told == BY_GRANTS

    def committed(self, count: int) -> None:
        """So many settled messages no longer wait for a commit."""
        self.uncommitted -= count
        self.serve()

    def is_hungry(self, shard: int) -> None:
        self.hungry[shard] = None
        self.serve()

    def spent(self, shard: int, count: int) -> None:
        self.granted[shard] = max(self.granted.get(shard, 0) - count, 0)
        self.serve()

    def lost(self, shard: int) -> None:
        """The life of a shard is over: nothing that was granted to it will be used."""
        self.granted.pop(shard, None)
        self.hungry.pop(shard, None)
        self.serve()

    def shard_gone(self, shard: int) -> None:
        """A shard was removed from the node: all that it sent is settled."""
        if shard in self.shards:
            self.shards.remove(shard)
            self.tell_octets()
        self.lost(shard)

    def serve(self) -> None:
        """Grant the room that there is to who is hungry, in turn."""
        if not self.granting or not self.hungry:
            return
        acceptor = self.channel.acceptor
        room = self.limit - self.channel.unacked.consumed - self.uncommitted - sum(self.granted.values())
        while self.hungry and room > 0:
            share = -(-room // len(self.hungry))
            shard = next(iter(self.hungry))
            del self.hungry[shard]
            if acceptor.links[shard].up:
                acceptor.tell(shard, bus.GRANT, self.channel.group, share)
                self.granted[shard] = self.granted.get(shard, 0) + share
                room -= share
