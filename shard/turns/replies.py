"""Answers on their way to reply consumers, passed to the acceptor that the consumer's name contains (see
`penstock.amqp.replies`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.amqp.replies import home_of
from penstock.batch.batch_cy import Batch
from penstock.bus import to_acceptor, to_shard
from shard.turns.link import Link

if TYPE_CHECKING:
    from shard.turns.state import ShardState


def home(state: ShardState, name: str) -> Link | None:
    """The link to the acceptor of a reply consumer; None if that incarnation of the acceptor has no link here."""
    found = home_of(name)
    return state.links.get(b"acceptor.%d.%d" % found) if found else None


def pass_on(state: ShardState, name: str, batch: Batch, first: int, count: int) -> None:
    """Pass answers to the acceptor of a reply consumer. Nothing is kept: if the acceptor is gone, so is the
    consumer.
    """
    link = home(state, name)
    if link is not None:
        part = link.turn.place_batch(batch, first, count)
        link.turn.add(to_acceptor.Answers(name, part, count))


def reply_consumer(link: Link, replies: to_shard.Replies) -> None:
    """Record that a reply consumer of an acceptor comes or goes."""
    if replies.there:
        link.replies.add(replies.name)
    else:
        link.replies.discard(replies.name)


def has_reply_consumer(state: ShardState, name: str) -> bool:
    """Whether a reply consumer of that name is attached."""
    link = home(state, name)
    return link is not None and name in link.replies
