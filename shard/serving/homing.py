"""The home of a queue that moves, new or old: the queue waits there until its unacked messages are known.

Each acceptor re-attaches its consumers of the queue, claims their unacked messages from the ready ones (Hold) and then
sends Reattached. Until every acceptor has done so, or has died, the queue delivers nothing and requests about it wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.bus import to_acceptor, to_shard
from penstock.memory.gauges import READY, STARTING
from penstock.node.logs import get_logger
from router.model.records import Move
from shard.contents.queue_cy import NEVER
from shard.queue.queue_state import QueueState
from shard.queue.residence import Step
from shard.serving.paces import Paces
from shard.serving.serving import Serving
from shard.turns.link import Link, incarnation_of
from shard.turns.state import ShardState

log = get_logger()

PATIENCE_US = 30_000_000
"""How long to wait for a living acceptor that does not report its unacked messages."""

Incarnation = tuple[str, int, int]
"""Role, index and incarnation."""


class Homing:
    """A queue that waits at its home. `awaited` are the acceptors that have not reported their unacked messages.
    `waiting` are the requests to carry out when `over`, each with its link and the group of its channel, 0 for none.
    """

    def __init__(self, move: Move, awaited: set[Incarnation], deadline: int) -> None:
        self.move = move
        self.awaited = awaited
        self.deadline = deadline
        self.waiting: list[tuple[Link, int, Callable[[], None]]] = []
        self.over = False


class Homings:
    """The homings of one shard, by queue id."""

    def __init__(self, state: ShardState, serving: Serving, paces: Paces) -> None:
        self.state = state
        self.serving = serving
        self.paces = paces
        self.by_id: dict[int, Homing] = {}

    def begin(self, move: Move) -> None:
        """The router has decided that the queue places here: freeze the queue until all acceptors have reported."""
        known = self.by_id.get(move.queue_id)
        if known is not None and known.move.epoch == move.epoch:
            if known.over:
                report(self.state, move, "reattached")
            return
        self.by_id[move.queue_id] = Homing(
            move, living_incarnations(self.state, "acceptor"), self.state.now + PATIENCE_US
        )
        self.freeze(move.queue_id)

    def freeze(self, id: int) -> None:
        """Freeze a queue while its homing lasts, whether it has just arrived or stayed."""
        queue, homing = self.state.queues.get(id), self.by_id.get(id)
        if queue is not None and homing is not None and not homing.over:
            queue.move(Step.COME_HOME)

    def on_reattached(self, link: Link, reattached: to_shard.Reattached) -> None:
        """An acceptor has reported all its unacked messages of the queue."""
        homing = self.by_id.get(reattached.queue)
        if homing is not None and homing.move.epoch == reattached.epoch:
            homing.awaited.discard(incarnation_of(link.identity))

    def end_complete(self) -> None:
        """At the end of a turn: end each homing that awaits no acceptor, or has run out of patience."""
        if self.state.recovery is not None or self.state.version < 0:
            return
        for homing in [homing for homing in self.by_id.values() if not homing.over]:
            if homing.awaited and self.state.now < homing.deadline:
                continue
            if homing.awaited:
                silent = sorted(index for _, index, _ in homing.awaited)
                log.warning("acceptors did not report unacked messages of a queue: they may be delivered twice",
                            queue_id=homing.move.queue_id, acceptors=silent)  # fmt: skip
            self._end(homing)
            report(self.state, homing.move, "reattached")

    def end_move(self, id: int) -> None:
        """The move is over: end its homing."""
        homing = self.by_id.pop(id, None)
        if homing is not None and not homing.over:
            self._end(homing)

    def _end(self, homing: Homing) -> None:
        """Unfreeze the queue, announce Opened to acceptors and carry out the waiting requests."""
        homing.over = True
        for link in self.state.links.values():
            if link.is_acceptor:
                link.turn.add(to_acceptor.Opened(homing.move.queue_id, homing.move.epoch))
        queue = self.state.queues.get(homing.move.queue_id)
        if queue is not None:
            queue.move(Step.REATTACH)
            queue.usage.last = self.state.now
            self.paces.forget_queue(queue.id)
            if queue.ring.consumers:
                queue.ring.order()
                self.serving.elect(queue)
            self.state.touch(queue)
        waiting, homing.waiting = homing.waiting, []
        for link, _, request in waiting:
            if self.state.links.get(link.identity) is link:
                request()

    def defers(self, queue: QueueState | None, link: Link, request: Callable[[], None], group: int = 0) -> bool:
        """Return whether a request must wait because the queue's home does not know all unacked messages yet.

        A request that must wait is queued, and carried out when the homing is over.
        """
        homing = self.by_id.get(queue.id) if queue is not None else None
        if homing is None or homing.over:
            return False
        homing.waiting.append((link, group, request))
        return True

    def queue_behind(self, link: Link, action: Callable[[], None]) -> None:
        """Queue an action behind the waiting requests of an acceptor, once for each queue with such a request."""
        for homing in self.by_id.values():
            if any(waiting is link for waiting, *_ in homing.waiting):
                homing.waiting.append((link, 0, action))

    def drop_requests(self, link: Link, group: int) -> None:
        """A channel has ended: drop its waiting requests."""
        for homing in self.by_id.values():
            homing.waiting = [request for request in homing.waiting if request[:2] != (link, group)]

    def died(self, role: str, index: int, incarnation: int) -> None:
        """A process has died: await nothing from it."""
        for homing in self.by_id.values():
            homing.awaited = still_awaited(homing.awaited, role, index, incarnation)

    def next_wake(self) -> int:
        """When the first homing runs out of patience, in microseconds since 1970; NEVER if there is none."""
        if not self.by_id:
            return NEVER
        return min((homing.deadline for homing in self.by_id.values() if not homing.over), default=NEVER)


def living_incarnations(state: ShardState, role: Any) -> set[Incarnation]:
    """The incarnations of all acceptors, or shards, that are starting or ready."""
    count = state.gauges.acceptors if role == "acceptor" else state.gauges.shards
    places = ((index, state.gauges.process_read(role, index)) for index in range(count))
    return {(role, index, place.incarnation) for index, place in places if place.state in (STARTING, READY)}


def still_awaited(awaited: set[Incarnation], role: str, index: int, incarnation: int) -> set[Incarnation]:
    """`awaited` without the incarnation that died and earlier ones of the same process."""
    return {one for one in awaited if one[:2] != (role, index) or one[2] > incarnation}


def report(
    state: ShardState, move: Move, stage: str, count: int = 0, nbytes: int = 0, checksum: int = 0, reason: str = "",
    stop: Sequence[int] = (),
) -> None:  # fmt: skip
    """Report the stage of this shard's part of a move to the router."""
    arguments = {
        "queue_id": move.queue_id, "epoch": move.epoch, "shard": state.index, "incarnation": state.incarnation,
        "state": stage, "count": count, "nbytes": nbytes, "checksum": checksum, "stop": [*stop], "reason": reason,
    }  # fmt: skip
    state.router_requests.append(("move_report", arguments, _reported))


def _reported(result: Any, error: Any) -> None:
    if error is not None:
        log.error("report of a move refused", error=error)
