"""Live moves of queues from one shard to another: the decisions, step by step. docs/rebalancing.md has the protocol.

      precopying ──(the new home has nearly all of the open queue)──▶ stopping
      stopping ──(the old home has written its copy)──▶ copying ──(the new home has stored the copy)──▶ homing: moved
      precopying ──(a shard died, a timeout, an operator)──▶ over: rolled back
      stopping, copying ──(the same, or the copies differ)──▶ homing: rolled back
      homing ──(the acceptors have re-attached to the home)──▶ over

Each step is stored and published like any change of the topology, so it outlives the router; shards repeat their
reports to the router's next incarnation. Only a step changes the home of a queue: the queue's record names one shard at
any time, and any other shard that has something of the queue discards it.

`queue_move` returns {"result", "reason", "pause_ms", "messages", "bytes", "placement_version"}; `pause_ms` is None
if the queue was not stopped. Results:

    moved           the queue has its new home
    already-there   it lived there before
    rolled-back     it stays at its old home
    refused         it cannot be moved, or not at present
    no-queue        there is no queue of that name, or it was deleted
    no-shard        there is no shard of that number
    busy            it is being moved already, or MOVES_MAX queues are
    stale           the placement has another version than the one requested
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.node.clock import Clock
from penstock.node.logs import get_logger
from penstock.telemetry.rows import Put, nowhere
from penstock.telemetry.schema import PLACEMENT
from router.authority.ledger import Ledger
from router.authority.shards import Shards
from router.model.placement import place
from router.model.records import COPYING, HOMING, PRECOPYING, SERVING, STOPPING, Move, Queue

log = get_logger()

MOVES_MAX = 16
"""The most moves at a time: each has a copy on the disk and in two shards."""
PATIENCE_SECONDS = {PRECOPYING: 600.0, STOPPING: 60.0, COPYING: 600.0}
"""How long a move may take before it is rolled back: until the queue is stopped, and from then on."""

Result = dict[str, Any]
Ended = Callable[[Result], None]


class Moves:
    """The moves of queues, and the commands `waiting` for their end. `incarnation_of` returns the incarnation of a
    serving shard, 0 for any other, `is_full` whether a shard has no room. `put` writes rows of telemetry.
    """

    def __init__(self, ledger: Ledger, placing: Shards, clock: Clock) -> None:
        self.ledger = ledger
        self.placing = placing
        self.clock = clock
        self.topology = self.ledger.topology
        self.incarnation_of: Callable[[int], int] = lambda shard: 0
        self.is_full: Callable[[int], bool] = lambda shard: False
        self.put: Put = nowhere
        self.waiting: dict[int, list[Ended]] = {}
        self.answers: list[tuple[Ended, Result]] = []

    # Commands

    def start(
        self, vhost: str, name: str, shard: int, placement_version: int | None, plan: str | None, ended: Ended
    ) -> None:
        """Begin to move a queue; `ended` gets the result, with the turn that ends the move."""
        queue = self.topology.queue(vhost, name)
        result, reason = self._refusal(queue, shard, placement_version)
        if queue is None or result:
            self.answers.append((ended, self.result(result, reason)))
            return
        move = Move(
            queue.queue_id, self.topology.version + 1, queue.shard, shard, PRECOPYING, self.incarnation_of(queue.shard),
            self.incarnation_of(shard), plan, self.clock.now(),
        )  # fmt: skip
        self.waiting.setdefault(queue.queue_id, []).append(ended)
        self._record(move)
        log.info("move begins", queue=name, vhost=vhost, source=move.source, target=shard, epoch=move.epoch, plan=plan)

    def _refusal(self, queue: Queue | None, shard: int, placement_version: int | None) -> tuple[str, str]:
        """Return the result and the reason of a move that cannot begin; empty strings if it can."""
        if queue is None:
            return "no-queue", "there is no such queue"
        wanted = self.topology.shards.get(shard)
        if wanted is None:
            return "no-shard", f"there is no shard {shard}"
        if placement_version is not None and placement_version != self.topology.placement_version:
            return "stale", f"the placement is of version {self.topology.placement_version}"
        if queue.queue_id in self.topology.moves:
            return "busy", "it is being moved"
        if queue.shard == shard:
            return "already-there", ""
        if wanted.state != SERVING:
            return "refused", f"shard {shard} is {wanted.state}: it takes no queues"
        if reason := immovable(queue):
            return "refused", reason
        if len(self.topology.moves) >= MOVES_MAX:
            return "busy", f"{MOVES_MAX} queues are being moved"
        for index in (queue.shard, shard):
            if not self.incarnation_of(index):
                return "refused", f"shard {index} does not serve"
        if self.is_full(shard):
            return "refused", f"shard {shard} has no room"
        return "", ""

    def abort(self, vhost: str, name: str) -> bool:
        """Roll back the move of a queue; False if there is none, or it is decided."""
        queue = self.topology.queue(vhost, name)
        move = self.topology.moves.get(queue.queue_id) if queue is not None else None
        if move is None or move.phase == HOMING:
            return False
        self.roll_back(move, "aborted")
        return True

    # Reports of shards

    def report(
        self, queue_id: int, epoch: int, shard: int, incarnation: int, state: str, count: int, nbytes: int,
        checksum: int, stop: list[int], reason: str,
    ) -> None:  # fmt: skip
        """Handle a shard's report that its part is "precopied", "written", "kept" or "reattached", or has "failed".
        Repeats, and reports on other moves, are ignored. `stop` is the queue's stop as written, empty if it holds no
        producers.
        """
        move = self.topology.moves.get(queue_id)
        if move is None or move.epoch != epoch:
            return
        if state == "reattached":
            if move.phase == HOMING and shard == move.home:
                self._end(move)
        elif move.phase == HOMING or incarnation != (
            move.source_incarnation if shard == move.source else move.target_incarnation
        ):
            return
        elif state == "failed":
            self.roll_back(move, f"shard {shard}: {reason}")
        elif state == "precopied" and move.phase == PRECOPYING and shard == move.source:
            self._record(replace(move, phase=STOPPING, since=self.clock.now()))
        elif state == "written" and move.phase == STOPPING and shard == move.source:
            self._record(replace(move, phase=COPYING, count=count, size=nbytes, checksum=checksum, stop=stop))
        elif state == "kept" and move.phase == COPYING and shard == move.target:
            if (count, nbytes, checksum) == (move.count, move.size, move.checksum):
                self._switch(move)
            else:
                self.roll_back(move, f"the copy has {count} messages, {nbytes} bytes, not {move.count}, {move.size}")

    def shard_started(self, shard: int, incarnation: int) -> None:
        """Roll back undecided moves of a shard that asks for the topology in another incarnation than they began with:
        it knows nothing of its part.
        """
        for move in self._undecided():
            if (shard == move.source and incarnation != move.source_incarnation) or (
                shard == move.target and incarnation != move.target_incarnation
            ):
                self.roll_back(move, f"shard {shard} has died")

    def roll_back_failed(self) -> None:
        """Roll back undecided moves whose shards have died, or that take too long."""
        for move in self._undecided():
            for shard, incarnation in ((move.source, move.source_incarnation), (move.target, move.target_incarnation)):
                if self.incarnation_of(shard) != incarnation:
                    self.roll_back(move, f"shard {shard} has died")
                    break
            else:
                patience = PATIENCE_SECONDS[move.phase]
                if self.clock.now() - move.since > patience:
                    self.roll_back(move, f"{move.phase} took more than {patience:g} seconds")

    def _undecided(self) -> list[Move]:
        return [move for move in self.topology.moves.values() if move.phase != HOMING]

    # Steps

    def _switch(self, move: Move) -> None:
        """Give the queue its new home. This is the one moment in which the home changes."""
        queue = self.topology.queue_by_id(move.queue_id)
        assert queue is not None  # a queue is removed with its move
        slot = self.ledger.take_slot(move.target)
        if slot is None:
            self.roll_back(move, "the node has as many queues as it can have (max_queues)")
            return
        self._record(replace(move, phase=HOMING, outcome="moved"))
        self.ledger.rehome_queue(queue, move.target, slot)
        by_hash = place(queue.vhost, queue.name, self.placing.serving, {})
        self.ledger.place_queue(queue.vhost, queue.name, None if by_hash == move.target else move.target)

    def roll_back(self, move: Move, reason: str) -> None:
        """Decide that the queue stays at its old home. If it was not stopped yet, that is all."""
        log.warning("move is rolled back", queue_id=move.queue_id, epoch=move.epoch, reason=reason)
        decided = replace(move, outcome="rolled-back", reason=reason)
        if move.phase == PRECOPYING:
            self._end(decided)
        else:
            self._record(replace(decided, phase=HOMING))

    def _end(self, move: Move) -> None:
        self.ledger.record(move.change_gone(), durable=False)
        result = self.result(move.outcome, move.reason, move)
        log.info("move ends", queue_id=move.queue_id, epoch=move.epoch, plan=move.plan, **result)
        if move.outcome == "moved":
            self._write_telemetry(move, result)
        self._answer(move.queue_id, result)

    def _write_telemetry(self, move: Move, result: Result) -> None:
        """Write the row of telemetry of a queue that has moved."""
        queue = self.topology.queue_by_id(move.queue_id)
        if queue is None:
            return
        self.put(
            PLACEMENT,
            self.clock.wall_us(),
            {
                "vhost": queue.vhost,
                "queue": queue.name,
                "from_shard": move.source,
                "to_shard": move.target,
                "plan": move.plan,
                "version": result["placement_version"],
                "pause_ms": round(result["pause_ms"]),
                "messages": move.count,
                "bytes": move.size,
            },
        )

    def _record(self, move: Move) -> None:
        """Record a step without waiting for the disk: no move outlives the run of the node, and the new home is in the
        queue's own record.
        """
        self.ledger.record(move.change(), durable=False)

    # Answers

    def take_answers(self) -> list[tuple[Ended, Result]]:
        """Return the results to send with this turn, including those of moves whose queue was deleted."""
        for queue_id in [id for id in self.waiting if id not in self.topology.moves]:
            self._answer(queue_id, self.result("no-queue", "it was deleted"))
        answers, self.answers = self.answers, []
        return answers

    def _answer(self, queue_id: int, result: Result) -> None:
        self.answers += ((ended, result) for ended in self.waiting.pop(queue_id, ()))

    def result(self, result: str, reason: str, move: Move | None = None) -> Result:
        """Return the result of `queue_move`, with the figures of its move if it began."""
        stopped = None if move is None or move.phase == PRECOPYING else move.since
        return {
            "result": result,
            "reason": reason,
            "pause_ms": None if stopped is None else round((self.clock.now() - stopped) * 1000, 1),
            "messages": 0 if move is None else move.count,
            "bytes": 0 if move is None else move.size,
            "placement_version": self.topology.placement_version,
        }


def immovable(queue: Queue) -> str:
    """Return why a queue can never be moved; "" if it can."""
    return "it is exclusive: it goes with its connection" if queue.owner is not None else ""
