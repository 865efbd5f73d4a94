"""Operations that lives of a shard end at: what is sent again to each life of it may end every one.

      sent ──(a life of the shard ends at it)──▶ suspect ──(LIVES of them have, and at nothing else)──▶ given up
      suspect ──(all that was sent is safe)──▶ sent

A shard notes in the gauges which operation it takes in, and then which queue it finishes its turn for
(shard/turns/doing.py), so it is known at what a life ended, in whatever way; in the second case all is suspect together
that is sent again for that queue. What is given up is not sent again: the connections that it came from end with 541,
and the log names it. That cannot be done with a part of a transaction that other shards have parts of too, of which the
rest would be done, nor with HOLD, which says what all consumers have in hand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from acceptor.asking import INTERNAL_ERROR
from acceptor.moving import QUEUE_AT
from penstock import bus
from penstock.memory.gauges import FINISHES
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.contained import Breakable
    from acceptor.sent import Sent
    from acceptor.shard_link import ShardLink
    from acceptor.state import AcceptorState

log = get_logger()

LIVES = 3
ENDS_TURN = "end of a turn"
REQUESTS = {
    bus.CONSUME: "consume", bus.CANCEL: "cancel", bus.GET: "get", bus.PURGE: "purge", bus.DELETE: "delete",
    bus.STAT: "look", bus.LIMIT: "limit", bus.ACTIVE: "active", bus.PREFETCH: "prefetch", bus.RESERVE: "reserve",
    bus.REPLIES_TO: "look for a reply consumer",
}  # fmt: skip


class Ended(Exception):
    """Lives of a shard have ended at an operation."""


class Suspect(NamedTuple):
    """What a life ended at: `what` is the same for each life that does, `operations` are where it is now."""

    what: object
    name: str
    queues: tuple[int | str, ...]
    operations: Sequence[tuple[Sent, int]]


class Suspects:
    """The suspects of one acceptor: one at each shard."""

    def __init__(self, acceptor: AcceptorState) -> None:
        self.acceptor = acceptor

    def life_ended(self, link: ShardLink) -> None:
        """A life of a shard has ended that had said what is safe: look what it was doing."""
        suspect = self.find(link)
        if suspect is None:
            return
        lives = link.suspect[1] + 1 if link.suspect is not None and link.suspect[0] == suspect.what else 1
        link.suspect = suspect.what, lives
        queues = [str(self.acceptor.topology.queue_by_id(id) or id) for id in suspect.queues if isinstance(id, int)]
        log.warning("life of a shard ended at an operation", shard=link.index, operation=suspect.name, queues=queues,
                    lives=lives)  # fmt: skip
        if lives >= LIVES:
            link.suspect = None
            link.gave_up = True
            log.error("operation given up", shard=link.index, operation=suspect.name, queues=queues, lives=lives)
            error = Ended(f"{lives} lives of shard {link.index} have ended at: {suspect.name} ({', '.join(queues)})")
            for sent, at in suspect.operations:
                self.give_up(link, sent, at, error, suspect.queues)

    def find(self, link: ShardLink) -> Suspect | None:
        """What the shard was at, if that is sent again and can be given up."""
        acceptor = self.acceptor
        for sent in link.sent:
            doing = acceptor.gauges.pair_read_doing(acceptor.index, link.index, acceptor.incarnation, sent.number)
            if doing >= FINISHES:
                return self.of_queue(link, sent.number, acceptor.gauges.finishing_read(link.index, doing - FINISHES))
            if doing:
                return suspect_of(link, sent, doing - 1)
        return None

    def of_queue(self, link: ShardLink, turn: int, queue: int) -> Suspect | None:
        """What turns up to that one bring for a queue; None if nothing."""
        found = [
            (sent, at)
            for sent in link.sent
            for at in range(len(sent.operations))
            if sent.number <= turn and (each := suspect_of(link, sent, at)) is not None and queue in each.queues
        ]
        return Suspect((ENDS_TURN, queue), ENDS_TURN, (queue,), found) if queue and found else None

    def give_up(
        self, link: ShardLink, sent: Sent, at: int, error: Ended, queues: Collection[int | str]
    ) -> None:  # fmt: skip
        """Not sent again; who is behind it is told. Of settlements those of the queues."""
        operation = sent.operations[at]
        if operation[0] == bus.PUBLISH:
            publish = sent.publishes.pop(at)
            end({span.session: None for _, span in publish.spans} | (publish.senders or {}), error)
        elif operation[0] == bus.COMMIT:
            commit = sent.commits.pop(at)
            sent.publishes = {index: each for index, each in sent.publishes.items() if each.commit is not commit}
            end((commit.transaction.channel,), error)
        elif operation[0] == bus.SETTLE:
            holders = [each for each in link.holders.named(sent.settlements.consumers()) if each[1] in queues]
            sent.settlements.take_out({id for id, *_ in holders}, link.index)
            groups = {group for _, _, group, _ in holders}
            end([channel for channel in self.acceptor.channels() if channel.group in groups], error)
        else:
            log.error("connection ends", exc_info=error)
            link.replied(operation[1], None, [INTERNAL_ERROR, "internal error"], ())


def suspect_of(link: ShardLink, sent: Sent, at: int) -> Suspect | None:
    """An operation that may be given up; a publish of a transaction goes with that."""
    operation, place = sent.operations[at], [(sent, at)]
    kind = operation[0]
    if kind == bus.PUBLISH and sent.publishes[at].commit is None:
        return Suspect(sent.publishes[at], "publish", sent.publishes[at].queues, place)
    if kind == bus.COMMIT:
        commit = sent.commits[at]
        return Suspect(commit, "commit", tuple({id for each in commit.publishes for id in each.queues}), place)
    if kind == bus.SETTLE:
        holders = link.holders.named(sent.settlements.consumers())
        return Suspect(bus.SETTLE, "settle", tuple({queue for _, queue, *_ in holders}), place)
    if kind not in REQUESTS or operation[1] not in link.requests:
        return None
    queues = (operation[QUEUE_AT[kind]],) if kind in QUEUE_AT else ()
    what = operation[2] if kind == bus.CONSUME else operation[1]  # who is attached again is with another request
    return Suspect((kind, what), REQUESTS[kind], queues, place)


def end(sessions: Iterable[Breakable], error: Ended) -> None:
    for session in sessions:
        session.broken(error)
