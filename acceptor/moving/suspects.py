"""Operations at which a shard dies: one that is resent to each incarnation may end every one.

      sent ──(an incarnation of the shard ends at it)──▶ suspect ──(ENDS_MAX of them, none at another one)──▶ given up
      suspect ──(everything sent is safe)──▶ sent

A shard writes into the gauges which operation it processes, and then for which queue it finishes its turn
(shard/turns/doing.py), so the operation at which an incarnation ended is known. In the second case all operations
are suspect together that are resent for that queue. An operation that is given up is not resent: the connections that
it came from end with 541, and the log names it. A part of a transaction over several shards cannot be given up, as the
other parts would be done all the same, nor can Hold, which names the unacked messages of all consumers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from acceptor.clients.asking import INTERNAL_ERROR
from penstock.bus import to_shard
from penstock.memory.gauges import FINISHES
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.clients.state import AcceptorState
    from acceptor.links.contained import Breakable
    from acceptor.links.sent import Sent
    from acceptor.links.shard_link import ShardLink

log = get_logger()

ENDS_MAX = 3
WORDS = re.compile(r"(?<!^)(?=[A-Z])")
ENDS_TURN = "end of a turn"
MAY_FAIL = (
    to_shard.Consume | to_shard.Cancel | to_shard.Get | to_shard.Purge | to_shard.Delete | to_shard.Stat
    | to_shard.Limit | to_shard.Active | to_shard.Prefetch | to_shard.Reserve | to_shard.RepliesTo
)  # fmt: skip
"""The requests that can be given up: their channel gets an error."""


class Ended(Exception):
    """The error that breaks connections whose operation has ended several incarnations of a shard."""


class Suspect(NamedTuple):
    """The operations at which an incarnation ended. `what` is the same for each that ends there; `operations` are the
    present places of them: turn and index.
    """

    what: object
    name: str
    queues: tuple[int | str, ...]
    operations: Sequence[tuple[Sent, int]]


class Suspects:
    """The suspects of one acceptor, at most one for each shard (`ShardLink.suspect`)."""

    def __init__(self, acceptor: AcceptorState) -> None:
        self.acceptor = acceptor

    def incarnation_ended(self, link: ShardLink) -> None:
        """An incarnation that had sent its first report has ended: find the operation it ended at, and give that up if
        `ENDS_MAX` of them have ended there.
        """
        suspect = self.find(link)
        if suspect is None:
            return
        ends = link.suspect[1] + 1 if link.suspect is not None and link.suspect[0] == suspect.what else 1
        link.suspect = suspect.what, ends
        queues = [str(self.acceptor.topology.queue_by_id(id) or id) for id in suspect.queues if isinstance(id, int)]
        log.warning("incarnation of a shard ended at an operation", shard=link.index, operation=suspect.name,
                    queues=queues, ends=ends)  # fmt: skip
        if ends >= ENDS_MAX:
            link.suspect = None
            link.gave_up = True
            log.error("operation given up", shard=link.index, operation=suspect.name, queues=queues, ends=ends)
            error = Ended(
                f"{ends} incarnations of shard {link.index} have ended at: {suspect.name} ({', '.join(queues)})"
            )
            for sent, at in suspect.operations:
                self.give_up(link, sent, at, error, suspect.queues)

    def find(self, link: ShardLink) -> Suspect | None:
        """Return the operations at which the shard was, if they are to be resent and can be given up."""
        acceptor = self.acceptor
        for sent in link.sent:
            doing = acceptor.gauges.pair_read_doing(acceptor.index, link.index, acceptor.incarnation, sent.number)
            if doing >= FINISHES:
                return self.of_queue(link, sent.number, acceptor.gauges.finishing_read(link.index, doing - FINISHES))
            if doing:
                return suspect_of(link, sent, doing - 1)
        return None

    def of_queue(self, link: ShardLink, turn: int, queue: int) -> Suspect | None:
        """Return the operations for a queue in turns up to `turn`; None if there are none."""
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
        """Remove an operation from its turn, and end the connections that it came from; of settlements only those of
        the queues.
        """
        operation = sent.operations[at]
        if isinstance(operation, to_shard.Publish):
            publish = sent.publishes.pop(at)
            end({span.channel: None for _, span in publish.spans} | (publish.senders or {}), error)
        elif isinstance(operation, to_shard.Commit):
            commit = sent.commits.pop(at)
            sent.publishes = {index: each for index, each in sent.publishes.items() if each.commit is not commit}
            end((commit.transaction.channel,), error)
        elif isinstance(operation, to_shard.Settle):
            holders = [each for each in link.holders.named(sent.settlements.consumers()) if each[1] in queues]
            sent.settlements.take_out({id for id, *_ in holders}, link.index)
            groups = {group for _, _, group, _ in holders}
            end([channel for channel in self.acceptor.channels() if channel.group in groups], error)
        elif isinstance(operation, MAY_FAIL):
            log.error("connection ends", exc_info=error)
            link.replied(operation.request, None, [INTERNAL_ERROR, "internal error"], ())


def suspect_of(link: ShardLink, sent: Sent, at: int) -> Suspect | None:
    """Return an operation as a suspect; None if it cannot be given up. A publish of a transaction goes with that."""
    operation, place, kind = sent.operations[at], [(sent, at)], type(sent.operations[at])
    name = WORDS.sub(" ", kind.__name__).lower()
    if isinstance(operation, to_shard.Publish) and sent.publishes[at].commit is None:
        return Suspect(sent.publishes[at], name, sent.publishes[at].queues, place)
    if isinstance(operation, to_shard.Commit):
        commit = sent.commits[at]
        return Suspect(commit, name, tuple({id for each in commit.publishes for id in each.queues}), place)
    if isinstance(operation, to_shard.Settle):
        holders = link.holders.named(sent.settlements.consumers())
        return Suspect(kind, name, tuple({queue for _, queue, *_ in holders}), place)
    if not isinstance(operation, MAY_FAIL) or operation.request not in link.requests:
        return None
    queues = (operation.queue,) if isinstance(operation, to_shard.OF_QUEUE) else ()
    if isinstance(operation, to_shard.Consume):  # a re-attached consumer has another request number
        return Suspect((kind, operation.consumer), name, queues, place)
    return Suspect((kind, operation.request), name, queues, place)


def end(channels: Iterable[Breakable], error: Ended) -> None:
    """Break the channels with that error."""
    for channel in channels:
        channel.broken(error)
