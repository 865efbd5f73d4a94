"""Queues that move from shard to shard while processes are killed: each has one home at the end, and clients see only
pauses.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ops.administration.processes import Processes
from penstock.control.control import Refusal
from tests.faults.harms import kill_now
from tests.faults.node import BACK_SECONDS, PLACES, Node
from tests.faults.plan import SHARDS
from tests.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from tests.faults.rounds import Rounds

PLAIN = ("plain", "priority", "full-", "impatient", "refusing", "spilled", "quick", "lagging", "ring")
"""Stems of queues that move. The rules depend on the homes of the others: one shard takes the parts of a transaction,
and dead letters within one shard arrive once.
"""
DEAD = ("full-dead", "far-dead", "dying-full", "dying-far", "dying-ring")


class Moves(threading.Thread):
    """Moves queues, one after the other, until `ending`. `results` counts the results of the moves."""

    def __init__(self, node: Node, queues: list[str], seed: object) -> None:
        super().__init__(name="moves", daemon=True)
        self.node = node
        self.queues = queues
        self.chance = random.Random(f"{seed} moves")
        self.ending = threading.Event()
        self.results: Counter[str] = Counter()
        self.errors: list[str] = []

    def run(self) -> None:
        """Move random queues until `ending`."""
        while not self.ending.is_set():
            queue = self.chance.choice(self.queues)
            self.count(queue)
            try:
                result = self.move(queue)
                self.results[result["result"]] += 1
                if result["result"] not in ("moved", "rolled-back", "refused", "busy", "already-there"):
                    self.errors.append(f"{queue}: {result}")
            except (OSError, ValueError):
                self.results["router gone"] += 1
                time.sleep(0.05)
            except Refusal as refusal:
                self.errors.append(str(refusal))
            finally:
                self.node.wait_moved()
                self.count(queue)

    def count(self, queue: str) -> None:
        """Count the beginning or end of a queue's move."""
        assert self.node.moved is not None
        self.node.moved[queue] += 1

    def move(self, queue: str) -> dict[str, Any]:
        """Move a queue to a random shard; return the result."""
        result: dict[str, Any] = self.node.broker.call(
            "queue_move", vhost=self.node.vhost, name=queue, shard=self.chance.randrange(SHARDS),
            placement_version=None, plan=None,
        )  # fmt: skip
        return result


def movable(rounds: Rounds) -> list[str]:
    """Return the names of queues that may move."""
    queues = rounds.cast.plan.queues
    return [name for name in queues if name.startswith((*PLAIN, *DEAD))]


def move_and(harm: Callable[[Rounds], None] | None) -> Callable[[Rounds], None]:
    """Return a harm that moves queues while it does another harm, if any."""

    def moves(rounds: Rounds) -> None:
        rounds.node.observe_moves()
        thread = Moves(rounds.node, movable(rounds), rounds.chance.random())
        thread.start()
        time.sleep(rounds.chance.uniform(0.05, 0.6))
        if harm is not None:
            harm(rounds)
        time.sleep(rounds.chance.uniform(0.0, 0.4))
        thread.ending.set()
        thread.join(4 * PATIENCE)
        assert not thread.is_alive(), "a move does not come to an end"
        assert not thread.errors, thread.errors[0]
        one_home_each(rounds.node)
        rounds.over(f"moves: {dict(thread.results)}")

    return moves


def kill_once(rounds: Rounds) -> None:
    """Kill one process and wait until all are ready."""
    kill_now(rounds, rounds.chance.choice(PLACES))
    rounds.node.wait_ready()
    rounds.over("all ready")


def one_home_each(node: Node) -> None:
    """Wait until each queue is on the shard that its record names, and on no other."""

    def wrong() -> list[str]:
        processes = Processes(node.data)
        held = {shard: set(processes.ask("shard", shard, "queues")) for shard in range(SHARDS)}
        placement = node.broker.call("placement", vhost=None)
        return [
            f"{queue['name']}: lives on {queue['shard']}, had by {homes}"
            for queue in placement["queues"]
            if (homes := [shard for shard in range(SHARDS) if queue["id"] in held[shard]]) != [queue["shard"]]
        ]

    seen: list[list[str]] = []
    wait_for(lambda: seen.append(wrong()) or not seen[-1], BACK_SECONDS, f"one home for each queue: {seen[-1:]}")
