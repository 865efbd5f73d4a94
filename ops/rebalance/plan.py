"""A plan: a list of moves of queues, as a value that can be read, kept, sent and undone.

    {"format": 1, "id", "made", "expires", "placement_version", "undoes": id | null,
     "inputs": {"source", "digest", "queues", "coverage"},
     "before": {goal: {"max_over_mean", "shards": {shard: amount}}}, "after": the same,
     "moves": [{"vhost", "queue", "queue_id", "from", "to", "for", "messages", "bytes", "rate", "pause_ms"}, …],
     "inverse": [{"vhost", "queue", "queue_id", "from", "to"}, …],
     "notes": [text, …]}

Times are seconds of the node's clock. Amounts are messages a second (`load`), queues stopped at a time (`held`), bytes
a second (`bytes`) and queues (`queues`). `inverse` undoes the moves, the last first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ops.rebalance.goals import Home, Shard

FORMAT = 1


class PlanError(ValueError):
    """No plan can be made or read; the text is one line that says why."""


@dataclass(frozen=True, slots=True)
class Move:
    """One move. `messages` and `nbytes` are the size of the queue when the plan was made, `rate` is messages a second,
    `pause_ms` the expected wait of its producers and consumers.
    """

    vhost: str
    queue: str
    queue_id: int
    source: int
    target: int
    goal: str = ""
    messages: int = 0
    nbytes: int = 0
    rate: float = 0.0
    pause_ms: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        """Vhost and name of the queue."""
        return self.vhost, self.queue

    def inverse(self) -> Move:
        """Return the move back."""
        return replace(self, source=self.target, target=self.source)

    def where(self) -> dict[str, Any]:
        """Return the queue, the source and the target, as in JSON."""
        names = {"vhost": self.vhost, "queue": self.queue, "queue_id": self.queue_id}
        return {**names, "from": self.source, "to": self.target}

    def to_json(self) -> dict[str, Any]:
        cost = {"messages": self.messages, "bytes": self.nbytes, "rate": self.rate}
        return {**self.where(), "for": self.goal, **cost, "pause_ms": self.pause_ms}


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan. `undoes` is the id of the plan whose moves it reverts, if any."""

    id: str
    made: float
    expires: float
    placement_version: int
    inputs: Mapping[str, Any]
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    moves: tuple[Move, ...]
    notes: tuple[str, ...] = ()
    undoes: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in ("id", "made", "expires", "placement_version", "undoes")},
            "inputs": dict(self.inputs),
            "before": dict(self.before),
            "after": dict(self.after),
            "moves": [move.to_json() for move in self.moves],
            "inverse": [move.inverse().where() for move in reversed(self.moves)],
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, value: Any) -> Plan:
        """Read a plan from JSON. PlanError if it is not a plan, or of another format."""
        if not isinstance(value, dict) or not isinstance(value.get("moves"), list):
            raise PlanError("not a plan: it has no moves")
        if value.get("format") != FORMAT:
            raise PlanError(f"the plan is of format {value.get('format')!r}, this penstock knows {FORMAT}")
        try:
            return cls(
                str(value["id"]),
                float(value["made"]),
                float(value["expires"]),
                int(value["placement_version"]),
                dict(value["inputs"]),
                dict(value["before"]),
                dict(value["after"]),
                tuple(map(_move, value["moves"])),
                tuple(map(str, value["notes"])),
                value["undoes"] and str(value["undoes"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PlanError(f"not a plan: {type(error).__name__} at {error}") from None


@dataclass(frozen=True, slots=True)
class World:
    """The state of the node for which a plan is made: the places of queues, the shards, and the placement version.

    No queue is placed on shards that are `closed`.
    """

    homes: Sequence[Home]
    shards: Sequence[Shard]
    placement_version: int
    closed: frozenset[int] = frozenset()


def undo_plan(plan: Plan, world: World, *, now: float, lasts: float) -> Plan:
    """Return the plan that reverts a plan's moves, for those queues that are still where it put them."""
    known = {home.key: home for home in world.homes}
    places = {home.key: home.shard for home in world.homes}
    moves, notes = [], []
    for move in reversed(plan.moves):
        home = known.get(move.key)
        if home is None or home.queue_id != move.queue_id:
            notes.append(f"queue '{move.queue}' in vhost '{move.vhost}' is gone")
        elif places[move.key] == move.target:
            moves.append(move.inverse())
            places[move.key] = move.source
        elif home.shard != move.source:
            notes.append(f"queue '{move.queue}' in vhost '{move.vhost}' has moved on to shard {home.shard}")
    return Plan(
        identity(now, plan.id, world.placement_version, moves),
        now,
        now + lasts,
        world.placement_version,
        plan.inputs,
        plan.after,
        plan.before,
        tuple(moves),
        tuple(notes),
        plan.id,
    )


def identity(now: float, inputs: str, version: int, moves: Iterable[Move]) -> str:
    """Return an id that sorts by time, and is the same for the same plan made at the same time."""
    text = json.dumps([inputs, version, [move.where() for move in moves], now])
    hashed = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{hashed}"


def _move(value: Mapping[str, Any]) -> Move:
    where = str(value["vhost"]), str(value["queue"]), int(value["queue_id"]), int(value["from"]), int(value["to"])
    cost = int(value["messages"]), int(value["bytes"]), float(value["rate"]), float(value["pause_ms"])
    return Move(*where, str(value["for"]), *cost)
