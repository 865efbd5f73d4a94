"""The past of a node's plans, as automatic rebalancing sees it, from the records of the history.

Times are seconds since 1970 by the machine's clock, as in the records (`ops.rebalance.records`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ops.rebalance.applying import DONE
from ops.rebalance.records import By

DAY = 86400.0

Key = tuple[str, str]
"""Vhost and name of a queue."""


@dataclass(frozen=True, slots=True)
class PastPlan:
    """A plan that was kept or applied. `by` is None if it was only kept; `last` is the time of its last record, `state`
    its end, "" before that. `ours` is whether automatic rebalancing made it.
    """

    id: str
    last: float
    by: By | None = None
    ours: bool = False
    undoes: str | None = None
    expires: float = 0.0
    state: str = ""


@dataclass(frozen=True, slots=True)
class PastMove:
    """A move that was made, or may have been made: its end is not on record. `number` is that in its plan, `at` its
    start.
    """

    plan: str
    number: int
    at: float
    key: Key
    nbytes: int
    by: By


@dataclass(frozen=True, slots=True)
class Past:
    """Plans in the order of their last records, and moves in order."""

    plans: tuple[PastPlan, ...] = ()
    moves: tuple[PastMove, ...] = ()

    @property
    def interrupted(self) -> PastPlan | None:
        """The latest plan, if automatic rebalancing was applying it and it has not ended."""
        last = self.plans[-1] if self.plans else None
        return last if last is not None and last.by == "automatic" and not last.state else None

    def own_moves(self, since: float) -> list[PastMove]:
        """Return the moves that automatic rebalancing has begun since then."""
        return [move for move in self.moves if move.by == "automatic" and move.at > since]

    def moved(self, since: float) -> frozenset[Key]:
        """Return the queues that any plan has moved since then."""
        return frozenset(move.key for move in self.moves if move.at > since)


def past_of(records: Iterable[Mapping[str, Any]]) -> Past:
    """Return the past, from records in order. Those of earlier versions have no `by`: an operator's."""
    plans: dict[str, PastPlan] = {}
    moves: dict[tuple[str, int], PastMove] = {}
    for record in records:
        id = record["plan"]
        plan = plans.pop(id, PastPlan(id, 0.0))
        if record["event"] == "kept":
            plan = replace(plan, ours=True, expires=record["expires"])
        elif record["event"] == "begun":
            by: By = record.get("by", "operator")
            plan = replace(plan, by=by, ours=plan.ours or by == "automatic", undoes=record.get("undoes"), state="")
        elif record["event"] == "ended":
            plan = replace(plan, state=record["state"])
        elif record["event"] == "start":
            key = record["vhost"], record["queue"]
            made = PastMove(id, record["number"], record["at"], key, record.get("bytes", 0), plan.by or "operator")
            moves[id, record["number"]] = made
        elif record["event"] == "move" and record["result"] not in DONE:
            moves.pop((id, record["number"]), None)
        plans[id] = replace(plan, last=record["at"])
    return Past(tuple(plans.values()), tuple(moves.values()))
