"""Live moves of queues from one shard to another: what is decided, step by step. docs/rebalancing.md has the protocol.

      stopping ──(the old home has written its copy)──▶ copying ──(the new home has it in its store)──▶ homing: moved
      stopping, copying ──(a shard died, the time is up, the copies differ, an operator)──▶ homing: rolled back
      homing ──(who had something of it in hand has said so to its home)──▶ over

Each step is stored and published as any change of the topology, so it outlives the router; what shards report is said
again to the router's next life. A step is the only place where it is decided where a queue lives: its record names
one shard at any time, and who finds something of it elsewhere throws that away.

`queue_move` answers {"result", "reason", "pause_ms", "messages", "octets", "placement_version"}; `pause_ms` is None
where nothing was stopped. Results:

    moved           it has its new home
    already-there   it lived there
    rolled-back     it was stopped and goes on where it was
    refused         it cannot be moved, or not now
    no-queue        there is none of that name
    no-shard        there is no shard of that number
    busy            it is being moved, or as many are as may be
    stale           the placement is of another version than the one asked for
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.node import clock
from penstock.node.logs import get_logger
from penstock.telemetry.rows import Put, nowhere
from penstock.telemetry.schema import PLACEMENT
from router.authority.ledger import Ledger
from router.authority.shards import Shards
from router.model.placement import place
from router.model.records import COPYING, HOMING, SERVING, STOPPING, Move, Queue

log = get_logger()

MOVES_MAX = 16
"""Moves at a time: each has a copy on the disk and in two shards."""
STOPPED_SECONDS = 60.0
"""How long a queue may be stopped before it goes on where it was; one that copies may take COPYING_SECONDS."""
COPYING_SECONDS = 600.0

Result = dict[str, Any]
Ended = Callable[[Result], None]


class Moves:
    """The moves of one life of the router: who waits for their end. `life_of` gives the incarnation of a shard that
    serves, 0 for one that does not, `is_full` whether one has no room. `put` takes rows of telemetry.
    """

    def __init__(self, ledger: Ledger, placing: Shards) -> None:
        self.ledger = ledger
        self.placing = placing
        self.topology = self.ledger.topology
        self.life_of: Callable[[int], int] = lambda shard: 0
        self.is_full: Callable[[int], bool] = lambda shard: False
        self.put: Put = nowhere
        self.waiting: dict[int, list[Ended]] = {}
        self.answers: list[tuple[Ended, Result]] = []

    # Commands

    def start(
        self, vhost: str, name: str, shard: int, placement_version: int | None, plan: str | None, ended: Ended
    ) -> None:
        """Move a queue; `ended` gets the result when it is over, with the turn that makes it so."""
        queue = self.topology.queue(vhost, name)
        result, reason = self._refusal(queue, shard, placement_version)
        if queue is None or result:
            self.answers.append((ended, self.result(result, reason)))
            return
        move = Move(
            queue.queue_id, self.topology.version + 1, queue.shard, shard, STOPPING, self.life_of(queue.shard),
            self.life_of(shard), plan, clock.now(),
        )  # fmt: skip
        self.waiting.setdefault(queue.queue_id, []).append(ended)
        self._record(move)
        log.info("move begins", queue=name, vhost=vhost, source=move.source, target=shard, epoch=move.epoch, plan=plan)

    def _refusal(self, queue: Queue | None, shard: int, placement_version: int | None) -> tuple[str, str]:
        """Why it is not begun; nothing if it may be."""
        if queue is None:
            return "no-queue", "there is no such queue"
        state = self.topology.shards.get(shard)
        if state is None:
            return "no-shard", f"there is no shard {shard}"
        if placement_version is not None and placement_version != self.topology.placement_version:
            return "stale", f"the placement is of version {self.topology.placement_version}"
        if queue.queue_id in self.topology.moves:
            return "busy", "it is being moved"
        if queue.shard == shard:
            return "already-there", ""
        if state != SERVING:
            return "refused", f"shard {shard} is {state}: it takes no queues"
        if reason := immovable(queue):
            return "refused", reason
        if len(self.topology.moves) >= MOVES_MAX:
            return "busy", f"{MOVES_MAX} queues are being moved"
        for index in (queue.shard, shard):
            if not self.life_of(index):
                return "refused", f"shard {index} is not there"
        if self.is_full(shard):
            return "refused", f"shard {shard} has no room"
        return "", ""

    def abort(self, vhost: str, name: str) -> bool:
        """Roll a move back; whether there was one that could be. One that is decided is not."""
        queue = self.topology.queue(vhost, name)
        move = self.topology.moves.get(queue.queue_id) if queue is not None else None
        if move is None or move.phase == HOMING:
            return False
        self.roll_back(move, "aborted")
        return True

    # What shards say

    def report(
        self, queue_id: int, epoch: int, shard: int, life: int, state: str, count: int, octets: int, checksum: int,
        stop: list[int], reason: str,
    ) -> None:  # fmt: skip
        """A shard is done with its part: "written", "kept", "homed", or it "failed". What is of another move, or comes
        again, does nothing. `stop` is what was written of the queue's stop, empty if it holds nobody.
        """
        move = self.topology.moves.get(queue_id)
        if move is None or move.epoch != epoch:
            return
        if state == "homed":
            if move.phase == HOMING and shard == move.home:
                self._end(move)
        elif move.phase == HOMING or life != (move.source_life if shard == move.source else move.target_life):
            return
        elif state == "failed":
            self.roll_back(move, f"shard {shard}: {reason}")
        elif state == "written" and move.phase == STOPPING and shard == move.source:
            self._record(replace(move, phase=COPYING, count=count, octets=octets, checksum=checksum, stop=stop))
        elif state == "kept" and move.phase == COPYING and shard == move.target:
            if (count, octets, checksum) == (move.count, move.octets, move.checksum):
                self._switch(move)
            else:
                self.roll_back(move, f"the copy has {count} messages, {octets} bytes, not {move.count}, {move.octets}")

    def shard_lives(self, shard: int, life: int) -> None:
        """A shard asks for the topology. In another life than a move began with it knows nothing of its part."""
        for move in self._undecided():
            if (shard == move.source and life != move.source_life) or (
                shard == move.target and life != move.target_life
            ):
                self.roll_back(move, f"shard {shard} has died")

    def look(self) -> None:
        """Roll back what cannot be done any more, or takes too long."""
        for move in self._undecided():
            for shard, life in ((move.source, move.source_life), (move.target, move.target_life)):
                if self.life_of(shard) != life:
                    self.roll_back(move, f"shard {shard} has died")
                    break
            else:
                patience = STOPPED_SECONDS if move.phase == STOPPING else COPYING_SECONDS
                if clock.now() - move.since > patience:
                    self.roll_back(move, f"{move.phase} took more than {patience:g} seconds")

    def _undecided(self) -> list[Move]:
        return [move for move in self.topology.moves.values() if move.phase != HOMING]

    # Steps

    def _switch(self, move: Move) -> None:
        """The one moment in which the home changes."""
        queue = self.topology.queue_by_id(move.queue_id)
        assert queue is not None  # its move would have gone with it
        slot = self.ledger.take_slot(move.target)
        if slot is None:
            self.roll_back(move, "the node has as many queues as it can have (max_queues)")
            return
        self._record(replace(move, phase=HOMING, outcome="moved"))
        self.ledger.rehome_queue(queue, move.target, slot)
        by_hash = place(queue.vhost, queue.name, self.placing.serving, {})
        self.ledger.place_queue(queue.vhost, queue.name, None if by_hash == move.target else move.target)

    def roll_back(self, move: Move, reason: str) -> None:
        """The queue goes on where it was."""
        log.warning("move is rolled back", queue_id=move.queue_id, epoch=move.epoch, reason=reason)
        self._record(replace(move, phase=HOMING, outcome="rolled-back", reason=reason))

    def _end(self, move: Move) -> None:
        self.ledger.record(move.change_gone(), durable=False)
        result = self.result(move.outcome, move.reason, move)
        log.info("move ends", queue_id=move.queue_id, epoch=move.epoch, plan=move.plan, **result)
        if move.outcome == "moved":
            self._write_down(move, result)
        self._answer(move.queue_id, result)

    def _write_down(self, move: Move, result: Result) -> None:
        """A queue has its new home: a row of telemetry."""
        queue = self.topology.queue_by_id(move.queue_id)
        if queue is None:
            return
        self.put(
            PLACEMENT,
            clock.wall_us(),
            {
                "vhost": queue.vhost,
                "queue": queue.name,
                "from_shard": move.source,
                "to_shard": move.target,
                "plan": move.plan,
                "version": result["placement_version"],
                "pause_ms": round(result["pause_ms"]),
                "messages": move.count,
                "bytes": move.octets,
            },
        )

    def _record(self, move: Move) -> None:
        """A move ends with the run of the node, so nobody waits for the disk; the switch is in the queue's record."""
        self.ledger.record(move.change(), durable=False)

    # Answers

    def take_answers(self) -> list[tuple[Ended, Result]]:
        """What is to be said with this turn; also of moves whose queue is gone."""
        for queue_id in [id for id in self.waiting if id not in self.topology.moves]:
            self._answer(queue_id, self.result("no-queue", "it was deleted"))
        answers, self.answers = self.answers, []
        return answers

    def _answer(self, queue_id: int, result: Result) -> None:
        self.answers += ((ended, result) for ended in self.waiting.pop(queue_id, ()))

    def result(self, result: str, reason: str, move: Move | None = None) -> Result:
        return {
            "result": result,
            "reason": reason,
            "pause_ms": None if move is None else round((clock.now() - move.since) * 1000, 1),
            "messages": 0 if move is None else move.count,
            "octets": 0 if move is None else move.octets,
            "placement_version": self.topology.placement_version,
        }


def immovable(queue: Queue) -> str:
    """Why a queue can never be moved; nothing if it can."""
    return "it is exclusive: it goes with its connection" if queue.owner is not None else ""
