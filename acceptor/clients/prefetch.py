"""The prefetch limit that all consumers of a channel share (basic.qos with global, as RabbitMQ has it).

While the channel consumes from one shard, that shard keeps the limit. From the second one on the acceptor keeps it, and
from the first move of a queue on, since unacked messages of a queue that moves count at no shard for a while. A shard
that could send more if it were allowed to reports that it is *hungry*, and is *granted* a number of messages. A grant
is good for one turn of the shard, which reports it as *spent*, used or not. Unacked and granted messages together thus
never exceed the limit, and no room is tied up at a shard where nothing is ready.

Of the bytes that its consumers may have unacked (`amqp.unacked_bytes`) each shard that the channel has consumed from
keeps an equal part, as shards know the sizes of their messages; each part allows one message at least.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from acceptor.clients.asking import Answer, Asking, Failing, ask_shard, has_failed
from acceptor.links.shard_link import ShardLink
from acceptor.links.unacked_cy import UnackedTags
from penstock.bus import to_shard
from penstock.bus.link_stage import UP
from penstock.bus.operations_cy import Operation
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

    def send(self, shard: int, operation: Operation) -> None: ...

    def ask_at(self, shard: int, request: to_shard.Request, resume: Callable[[Answer], None]) -> None: ...


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
    """The limit of one channel, 0 for none. `announced` is the limit its shards know: that value, or BY_GRANTS, as soon
    as the acceptor `keeps` it.

    `shards` are all that it has ever consumed from: their deliveries remain unacked even if their consumers are gone.
    `uncommitted` counts messages that were settled in a transaction which is not committed: they count as unacked.
    `granted` has the messages granted to each shard, `hungry` the shards that want more.
    """

    def __init__(self, channel: Consuming) -> None:
        self.channel = channel
        self.limit = UNLIMITED
        self.announced = UNLIMITED
        self.granting = False
        self.keeps = False
        self.uncommitted = 0
        self.shards: set[int] = set()
        self.granted: dict[int, int] = {}
        self.hungry: dict[int, None] = {}

    @property
    def nbytes(self) -> int:
        """The bytes that its consumers may have unacked from each shard, messages counted whole; 0 is no limit."""
        return -(-self.channel.acceptor.settings.amqp.unacked_bytes // max(len(self.shards), 1))

    def send_bytes_limit(self) -> None:
        """Send the limit of bytes to its shards, as it consumes from more or fewer. A new shard receives it with its
        first consumer.
        """
        nbytes = self.nbytes
        if nbytes:
            for shard in self.shards:
                self.channel.acceptor.send(shard, to_shard.Unacked(self.channel.group, nbytes))

    def change(self, limit: int) -> Asking:
        """Set another limit; once this returns no shard sends beyond it."""
        lower = 0 < limit < self.limit
        self.limit = limit
        if lower or not self.granting or not limit:
            yield from self.announce()
        self.serve()

    def join(self, shard: int) -> Asking:
        """Prepare for a consumer that is about to be attached to a shard."""
        if shard not in self.shards:
            self.shards.add(shard)
            self.send_bytes_limit()
            self.keeps = self.keeps or len(self.shards) > 1
            if self.limit and self.keeps and not self.granting:
                yield from self.announce()
                self.serve()

    def moved(self, shard: int) -> None:
        """Add the shard that a queue of the channel's consumers has moved to."""
        if shard not in self.shards:
            self.shards.add(shard)
            self.send_bytes_limit()
        if len(self.shards) > 1:
            self.keep()

    def keep(self) -> None:
        """Have the acceptor keep the limit, before a queue moves away from a shard that does."""
        self.keeps = True
        if not self.limit or self.announced == BY_GRANTS:
            return
        acceptor = self.channel.acceptor
        self.announced = BY_GRANTS
        acceptor.sharing[self.channel.group] = self
        awaited = set(self.shards)

        def answered(one: int, answer: Answer) -> None:
            if has_failed(self.channel.connection, answer.error):
                return
            awaited.discard(one)
            if not awaited:
                self.granting = self.announced == BY_GRANTS
                self.serve()

        for one in sorted(self.shards):
            acceptor.ask_at(one, to_shard.Limit(self.channel.group, self.announced), partial(answered, one))

    def announce(self) -> Asking:
        """Announce to the shards whether they keep the limit. After their answers, all they sent before has arrived."""
        self.announced = BY_GRANTS if self.limit and self.keeps else self.limit
        if self.announced == BY_GRANTS:  # shards may report that they are hungry from their answers on
            self.channel.acceptor.sharing[self.channel.group] = self
        for shard in sorted(self.shards):
            yield from ask_shard(shard, to_shard.Limit(self.channel.group, self.announced))
        self.granting = self.announced == BY_GRANTS

    def committed(self, count: int) -> None:
        """Stop counting `count` settled messages as uncommitted."""
        self.uncommitted -= count
        self.serve()

    def is_hungry(self, shard: int) -> None:
        """Record that a shard could send more."""
        self.hungry[shard] = None
        self.serve()

    def spent(self, shard: int, count: int) -> None:
        """Take back a grant, which a shard has used up or declared void."""
        self.granted[shard] = max(self.granted.get(shard, 0) - count, 0)
        self.serve()

    def lost(self, shard: int) -> None:
        """Drop the grants of a shard whose incarnation has ended: it will not use them."""
        self.granted.pop(shard, None)
        self.hungry.pop(shard, None)
        self.serve()

    def shard_gone(self, shard: int) -> None:
        """Forget a shard that was removed from the node: all its deliveries are settled."""
        if shard in self.shards:
            self.shards.remove(shard)
            self.send_bytes_limit()
        self.lost(shard)

    def serve(self) -> None:
        """Grant the room that there is to hungry shards, in turn."""
        if not self.granting or not self.hungry:
            return
        acceptor = self.channel.acceptor
        room = self.limit - self.channel.unacked.consumed - self.uncommitted - sum(self.granted.values())
        while self.hungry and room > 0:
            share = -(-room // len(self.hungry))
            shard = next(iter(self.hungry))
            del self.hungry[shard]
            if acceptor.links[shard].stage is UP:
                acceptor.send(shard, to_shard.Grant(self.channel.group, share))
                self.granted[shard] = self.granted.get(shard, 0) + share
                room -= share
