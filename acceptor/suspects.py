"""Operations that lives of a shard end at: what is sent again to each life of it may end every one.

      sent ──(a life of the shard ends at it)──▶ suspect ──(LIVES of them have, and at nothing else)──▶ given up
      suspect ──(all that was sent is safe)──▶ sent

A shard notes in the gauges which operation it takes in (`Gauges.pair_write_doing`), so it is known at which one a life
ended, in whatever way. What is given up is not sent again: the connections that it came from end with 541, and the log
names it. That cannot be done with a part of a transaction that other shards have parts of too, of which the rest would
be done, nor with HOLD, which says what all consumers have in hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from acceptor.asking import INTERNAL_ERROR
from acceptor.moving import QUEUE_AT
from acceptor.unacked_cy import Settlements
from penstock import bus
from penstock.logs import get_logger

if TYPE_CHECKING:
    from acceptor.contained import Breakable
    from acceptor.core import AcceptorCore
    from acceptor.sent import Sent
    from acceptor.shard_link import ShardLink

log = get_logger()

LIVES = 3
REQUESTS = {
    bus.CONSUME: "consume", bus.CANCEL: "cancel", bus.GET: "get", bus.PURGE: "purge", bus.DELETE: "delete",
    bus.STAT: "look", bus.LIMIT: "limit", bus.ACTIVE: "active", bus.PREFETCH: "prefetch", bus.RESERVE: "reserve",
    bus.REPLIES_TO: "look for a reply consumer",
}  # fmt: skip


class Ended(Exception):
    """Lives of a shard have ended at an operation."""


class Suspect(NamedTuple):
    """An operation that a life ended at: `what` is the same for each turn that it was sent in."""

    sent: Sent
    at: int
    what: object
    name: str
    queues: tuple[int | str, ...]


class Suspects:
    """The suspects of one acceptor: one at each shard."""

    def __init__(self, core: AcceptorCore) -> None:
        self.core = core

    def life_ended(self, link: ShardLink) -> None:
        """A life of a shard has ended that had said what is safe: look what it was doing."""
        suspect = self.find(link)
        if suspect is None:
            return
        lives = link.suspect[1] + 1 if link.suspect is not None and link.suspect[0] == suspect.what else 1
        link.suspect = suspect.what, lives
        queues = [str(self.core.topology.queue_by_id(id) or id) for id in suspect.queues if isinstance(id, int)]
        log.warning("life of a shard ended at an operation", shard=link.index, operation=suspect.name, queues=queues,
                    lives=lives)  # fmt: skip
        if lives >= LIVES:
            link.suspect = None
            log.error("operation given up", shard=link.index, operation=suspect.name, queues=queues, lives=lives)
            self.give_up(link, suspect, Ended(f"{lives} lives of shard {link.index} have ended at: {suspect.name}"))

    def find(self, link: ShardLink) -> Suspect | None:
        """What the shard was at, if that is sent again and can be given up."""
        core = self.core
        for sent in link.sent:
            doing = core.gauges.pair_read_doing(core.index, link.index, core.incarnation, sent.number)
            if doing:
                return suspect_of(link, sent, doing - 1)
        return None

    def give_up(self, link: ShardLink, suspect: Suspect, error: Ended) -> None:
        """Not sent again; who is behind it is told."""
        sent, index = suspect.sent, suspect.at
        operation = sent.operations[index]
        link.gave_up = True
        if operation[0] == bus.PUBLISH:
            publish = sent.publishes.pop(index)
            end({span.session: None for _, span in publish.spans} | (publish.senders or {}), error)
        elif operation[0] == bus.COMMIT:
            commit = sent.commits.pop(index)
            sent.publishes = {at: each for at, each in sent.publishes.items() if each.commit is not commit}
            end((commit.transaction.channel,), error)
        elif operation[0] == bus.SETTLE:
            settled = sent.settlements.consumers()
            sent.settlements = Settlements()
            groups = {group for _, _, group, _ in link.holders.named(settled)}
            end([channel for channel in self.core.delivery.channels() if channel.group in groups], error)
        else:
            log.error("connection ends", exc_info=error)
            link.replied(operation[1], None, [INTERNAL_ERROR, "internal error"], ())


def suspect_of(link: ShardLink, sent: Sent, index: int) -> Suspect | None:
    operation = sent.operations[index]
    kind = operation[0]
    if kind == bus.PUBLISH:
        return Suspect(sent, index, sent.publishes[index], "publish", sent.publishes[index].queues)
    if kind == bus.COMMIT:
        commit = sent.commits[index]
        return Suspect(sent, index, commit, "commit", tuple({id for each in commit.publishes for id in each.queues}))
    if kind == bus.SETTLE:
        holders = link.holders.named(sent.settlements.consumers())
        return Suspect(sent, index, bus.SETTLE, "settle", tuple({queue for _, queue, *_ in holders}))
    if kind not in REQUESTS or operation[1] not in link.requests:
        return None
    queues = (operation[QUEUE_AT[kind]],) if kind in QUEUE_AT else ()
    what = operation[2] if kind == bus.CONSUME else operation[1]  # who is attached again is with another request
    return Suspect(sent, index, (kind, what), REQUESTS[kind], queues)


def end(sessions: Iterable[Breakable], error: Ended) -> None:
    for session in sessions:
        session.broken(error)
