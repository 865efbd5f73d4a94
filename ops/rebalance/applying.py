"""Applies a plan move by move, without a node: chooses the next step from the present state.

    next_step(now, health)  ──▶  Start(move)  ──▶  begin, then at its end record_result  ──▶  next_step …  ──▶  Ended
                            ──▶  Wait(seconds, why)

A move without effect (its queue is gone, or already on the target) is passed over. A move that is rolled back is
retried; if it fails for good, the plan ends there, because the moves that follow assume a placement that will not come
about.

Moves are begun in order, several at a time if the limits allow it. A plan keeps its hard goals after each of its moves,
so it keeps them after any of the first moves as well, unless a missing one was to make room: no move is begun while
another, begun before, still has to leave its target.

Every move raises the version of the placement by one. A move that is begun alone is requested with the version that its
predecessors left; with others under way, the versions that they report tell whether anybody else has moved a queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ops.rebalance.plan import Move, Plan

MoveResult = Literal[
    "moved",  # the queue is on its target
    "already-there",  # the queue was on its target before
    "no-queue",  # the queue has been deleted
    "replaced",  # the queue has been deleted, and another of its name declared
    "rolled-back",  # the move was undone, the queue stays where it was
    "refused",  # the queue cannot be moved, or its target has no room
    "no-shard",  # the target does not exist
    "busy",  # another command moves the queue, or too many moves are in progress
    "stale",  # the placement has been changed from elsewhere
    "unknown",  # the node gave no answer, or one that is not known here
]
MOVE_RESULTS: frozenset[str] = frozenset(MoveResult.__args__)  # type: ignore[attr-defined]
DONE = frozenset({"moved", "already-there", "no-queue", "replaced"})
"""The next move may follow."""
RETRIED = frozenset({"rolled-back", "busy"})
"""Results that are worth another attempt."""

State = Literal["applied", "stopped", "aborted", "expired", "stale", "lease-lost", "withdrawn"]
"""How applying ends: all moves are made; one failed; an operator aborted the plan; the plan is too old; the placement
was changed from elsewhere; another command applies a plan; automatic rebalancing may not go on."""

ATTEMPTS = 3
BACK_OFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Waits between checks while the node is in trouble, and between attempts."""
PAUSED_SECONDS = 1.0
UNDER_WAY_SECONDS = 0.02
"""Wait between checks whether a move has ended."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on applying; 0 is no limit, except for `moves` at a time: 0 is none.

    The first two bound the average rate of copying; with one of them there is one move at a time. No move is begun
    while one of the others is exceeded: the loop lag of a shard or acceptor (99th percentile), the share of channels
    that are held, the memory of a shard's contents in percent of the mark at which it holds its producers.
    """

    messages_per_second: float = 0.0
    bytes_per_second: float = 0.0
    moves: float = 1
    loop_lag_ms: float = 250.0
    stopped_percent: float = 50.0
    fill_percent: float = 90.0

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Limits:
        """Return the limits among the values; others are ignored."""
        known = asdict(cls())
        return cls(**{name: value for name, value in values.items() if name in known})


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the node: the worst figure of its processes, and the share of its channels that are held."""

    loop_lag_ms: float = 0.0
    stopped_percent: float = 0.0
    fill_percent: float = 0.0

    def trouble(self, limits: Limits) -> str:
        """Describe the first figure that exceeds its limit; "" if none does."""
        if limits.loop_lag_ms and self.loop_lag_ms > limits.loop_lag_ms:
            return f"an event loop lags by {self.loop_lag_ms:.0f} ms, more than {limits.loop_lag_ms:g} ms"
        if limits.stopped_percent and self.stopped_percent > limits.stopped_percent:
            return f"{self.stopped_percent:.0f} % of the channels are held, more than {limits.stopped_percent:g} %"
        if limits.fill_percent and self.fill_percent > limits.fill_percent:
            return f"a shard's memory is {self.fill_percent:.0f} % full, more than {limits.fill_percent:g} %"
        return ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for this long before asking again; `why` is "" for the end of a move."""

    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Start:
    """Make this move, number `number` of the plan from 0, if the placement is of that version (None: of any)."""

    number: int
    move: Move
    placement_version: int | None


@dataclass(frozen=True, slots=True)
class Ended:
    """Applying has ended."""

    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """How a move ended. `placement_version` is the version after it, None if the node did not report it."""

    result: MoveResult
    reason: str = ""
    pause_ms: float | None = None
    messages: int = 0
    nbytes: int = 0
    placement_version: int | None = None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Result:
        """Read the router's answer (`router.authority.moving`)."""
        result = answer.get("result")
        if result not in MOVE_RESULTS:
            return cls("unknown", f"the node answered {result!r}")
        return cls(
            result, answer.get("reason") or "", answer.get("pause_ms"), answer.get("messages") or 0,
            answer.get("bytes") or 0, answer.get("placement_version"),
        )  # fmt: skip


@dataclass(slots=True)
class Applying:
    """A plan being applied. `done` are the numbers of the moves that are finished, earlier attempts included,
    `under_way` those that are begun.
    """

    plan: Plan
    placement_version: int
    limits: Limits = field(default_factory=Limits)
    done: set[int] = field(default_factory=set)
    results: list[tuple[int, Result]] = field(default_factory=list)
    why: str = ""
    aborted: bool = False
    under_way: dict[int, Start] = field(default_factory=dict)
    _accompanied: set[int] = field(default_factory=set)
    """Those under way that were begun alone, and others since."""
    _attempts: dict[int, int] = field(default_factory=dict)
    _troubled: int = 0
    _last: Result | None = None
    _last_begun: float = 0.0
    _not_before: float = 0.0
    _over: Ended | None = None

    def apply_controls(self, limits: Mapping[str, float], abort: bool) -> None:
        """Take over the operator's present limits, and end the plan on `abort`."""
        self.limits = Limits.of(limits)
        if abort:
            self.aborted = True
            self._over = Ended("aborted")

    def withdraw(self, reason: str) -> None:
        """End the plan: it may not be applied any further."""
        self.aborted = True
        self._over = self._over or Ended("withdrawn", reason)

    def lose_lease(self, reason: str) -> None:
        """End the plan: the lease is lost."""
        self._over = Ended("lease-lost", reason)

    def next_step(self, now: float, health: Health) -> Wait | Start | Ended:
        """Return the next step; `now` is in seconds of the node's clock."""
        number = self._next_number()
        over = self._over
        if over is None and number is None and not self.under_way:
            over = Ended("applied")
        if over is None and now >= self.plan.expires:
            over = Ended("expired", "plan again: its inputs are too old")
        if over is not None or number is None:
            return Wait(UNDER_WAY_SECONDS, "") if self.under_way or over is None else over
        waiting = self._hindrance(number, now, health)
        self.why = waiting.why if waiting else ""
        return waiting or Start(number, self.plan.moves[number], None if self.under_way else self.placement_version)

    def begin(self, start: Start) -> None:
        """A move is begun."""
        self._accompanied |= self.under_way.keys()
        self.under_way[start.number] = start

    def record_result(self, number: int, result: Result, now: float, took: float) -> None:
        """Record the end of a move, `took` seconds after it was begun."""
        self.results.append((number, result))
        self.under_way.pop(number, None)
        accompanied = number in self._accompanied
        self._accompanied.discard(number)
        self._last, self._last_begun = result, now - took
        self._check_version(result)
        if result.result in DONE:
            self.done.add(number)
            return
        self._attempts[number] = self._attempts.get(number, 0) + 1
        if result.result == "stale" and not accompanied:
            self._over = self._over or Ended("stale", result.reason)
        elif result.result not in {*RETRIED, "stale"} or self._attempts[number] >= ATTEMPTS:
            move = self.plan.moves[number]
            self._over = self._over or Ended("stopped", f"queue '{move.queue}': {result.result}, {result.reason}")
        else:
            self._not_before = now + BACK_OFF_SECONDS[self._attempts[number]]

    def _check_version(self, result: Result) -> None:
        """Count a move that was made. End the plan if the version that it left is higher than by this plan's moves."""
        self.placement_version += result.result == "moved"
        version = result.placement_version
        if result.result == "moved" and version is not None and version > self.placement_version + len(self.under_way):
            self._over = self._over or Ended("stale", f"the placement is of version {version}")

    def progress(self) -> dict[str, Any]:
        """Return the progress, as the lease reports it."""
        made = [result for _, result in self.results if result.result == "moved"]
        return {
            "moves": len(self.plan.moves),
            "done": len(self.done),
            "messages": sum(result.messages for result in made),
            "bytes": sum(result.nbytes for result in made),
            "waits_for": self.why,
        }

    def _next_number(self) -> int | None:
        numbers = range(len(self.plan.moves))
        return next((number for number in numbers if number not in self.done and number not in self.under_way), None)

    def _hindrance(self, number: int, now: float, health: Health) -> Wait | None:
        if self.limits.moves < 1:
            return Wait(PAUSED_SECONDS, "an operator allows no moves")
        if self.under_way and (self._has_enough_under_way() or self._needs_room_of_others(self.plan.moves[number])):
            return Wait(UNDER_WAY_SECONDS, "")
        if trouble := health.trouble(self.limits):
            seconds = BACK_OFF_SECONDS[min(self._troubled, len(BACK_OFF_SECONDS) - 1)]
            self._troubled += 1
            return Wait(seconds, trouble)
        self._troubled = 0
        if now < self._not_before:
            return Wait(self._not_before - now, "the next attempt")
        paced = self._last_begun + self._paced_seconds()
        return Wait(paced - now, "the rate limits") if now < paced else None

    def _has_enough_under_way(self) -> bool:
        paced = self.limits.messages_per_second or self.limits.bytes_per_second
        return len(self.under_way) >= (1 if paced else self.limits.moves)

    def _needs_room_of_others(self, move: Move) -> bool:
        """Whether a move under way leaves the target of this one, or is of the same queue."""
        others = (start.move for start in self.under_way.values())
        return any(other.source == move.target or other.queue_id == move.queue_id for other in others)

    def _paced_seconds(self) -> float:
        """Return the least time for the last move, from its start, that keeps its copies within the present rates."""
        if self._last is None:
            return 0.0
        rates = (
            (self._last.messages, self.limits.messages_per_second),
            (self._last.nbytes, self.limits.bytes_per_second),
        )
        return max(amount / rate if rate else 0.0 for amount, rate in rates)


def earlier_state(plan: Plan, records: Sequence[Mapping[str, Any]]) -> tuple[set[int], int, set[int]]:
    """Return the state that earlier attempts left, from their records: the moves done, the placement version without
    the moves whose ends are not on record, and these.
    """
    done: set[int] = set()
    unended: set[int] = set()
    version = plan.placement_version
    for record in records:
        match record["event"]:
            case "begun":
                unended, version = set(), record["placement_version"]
            case "start":
                unended.add(record["number"])
            case "move":
                unended.discard(record["number"])
                version += record["result"] == "moved"
                if record["result"] in DONE:
                    done.add(record["number"])
    return done, version, unended
