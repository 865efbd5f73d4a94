"""Applying a plan, move by move, without a node: what to do next, given what is known now.

    next(now, health)  ──▶  Start(move)  ──▶  ended(result)  ──▶  next …  ──▶  Ended(state)
                       ──▶  Wait(seconds, why)

A move that leads nowhere else (its queue is gone, or is there already) is passed over. One that is rolled back is tried
again; if it cannot be done, the plan ends there, because what follows was worked out for a placement that there will
not be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ops.rebalance.plan import Move, Plan

MoveResult = Literal[
    "moved",  # it has its new home
    "already-there",  # it lived there
    "no-queue",  # it has been deleted
    "replaced",  # another queue of that name is there now
    "rolled-back",  # it was stopped, and goes on where it was
    "refused",  # it cannot be moved, or its target has no room
    "no-shard",  # there is no such shard
    "busy",  # somebody else moves it, or too many are being moved
    "stale",  # somebody else has changed the placement
    "unknown",  # the node said nothing, or nothing that is known here
]
MOVE_RESULTS: frozenset[str] = frozenset(MoveResult.__args__)  # type: ignore[attr-defined]
DONE = frozenset({"moved", "already-there", "no-queue", "replaced"})
"""The next move may follow."""
AGAIN = frozenset({"rolled-back", "busy"})
"""Worth another attempt."""

State = Literal["applied", "stopped", "aborted", "expired", "stale", "lease-lost"]
"""How applying ends: all moves are made; one could not be; an operator said so; the plan is too old; somebody else has
changed the placement; somebody else applies a plan."""

ATTEMPTS = 3
BACK_OFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Between looks while the node has other troubles, and between attempts."""
PAUSED_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What applying keeps to; 0 is no limit, but for `moves`, of which there is one at a time, or with 0 none.

    The first two are on the average of what is copied. Beyond the others no move is begun: how late the loop of a shard
    or an acceptor is (99th percentile), how many of all channels are held, how full the memory of a shard's contents
    is, in percent of the mark at which it holds its producers.
    """

    messages_per_second: float = 0.0
    bytes_per_second: float = 0.0
    moves: float = 1
    loop_lag_ms: float = 250.0
    stopped_percent: float = 50.0
    fill_percent: float = 90.0

    @classmethod
    def of(cls, values: Mapping[str, float]) -> Limits:
        known = asdict(cls())
        return cls(**{name: value for name, value in values.items() if name in known})


@dataclass(frozen=True, slots=True)
class Health:
    """How the node does: the worst of its processes, the share of its channels that are held."""

    loop_lag_ms: float = 0.0
    stopped_percent: float = 0.0
    fill_percent: float = 0.0

    def trouble(self, limits: Limits) -> str:
        """What is beyond a limit; "" for nothing."""
        if limits.loop_lag_ms and self.loop_lag_ms > limits.loop_lag_ms:
            return f"a loop is {self.loop_lag_ms:.0f} ms late, more than {limits.loop_lag_ms:g} ms"
        if limits.stopped_percent and self.stopped_percent > limits.stopped_percent:
            return f"{self.stopped_percent:.0f} % of the channels are held, more than {limits.stopped_percent:g} %"
        if limits.fill_percent and self.fill_percent > limits.fill_percent:
            return f"a shard's memory is {self.fill_percent:.0f} % full, more than {limits.fill_percent:g} %"
        return ""


@dataclass(frozen=True, slots=True)
class Wait:
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class Start:
    """Make this move, the `number`th of the plan, if the placement is of that version."""

    number: int
    move: Move
    placement_version: int


@dataclass(frozen=True, slots=True)
class Ended:
    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """How a move ended. `placement_version` is that of after it, None where the node did not say."""

    result: MoveResult
    reason: str = ""
    pause_ms: float | None = None
    messages: int = 0
    octets: int = 0
    placement_version: int | None = None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Result:
        """What the router answered (`router.authority.moving`)."""
        result = answer.get("result")
        if result not in MOVE_RESULTS:
            return cls("unknown", f"the node answered {result!r}")
        numbers = {name: answer.get(name) or 0 for name in ("messages", "octets")}
        return cls(
            result, answer.get("reason") or "", answer.get("pause_ms"), **numbers,
            placement_version=answer.get("placement_version"),
        )  # fmt: skip


@dataclass(slots=True)
class Applying:
    """A plan being applied; `done` are the numbers of moves that an earlier attempt has made."""

    plan: Plan
    placement_version: int
    limits: Limits = field(default_factory=Limits)
    done: set[int] = field(default_factory=set)
    results: list[tuple[int, Result]] = field(default_factory=list)
    why: str = ""
    aborted: bool = False
    _attempts: int = 0
    _troubled: int = 0
    _last: Result | None = None
    _last_begun: float = 0.0
    _not_before: float = 0.0
    _over: Ended | None = None

    def follow(self, limits: Mapping[str, float], abort: bool) -> None:
        """What operators want by now."""
        self.limits = Limits.of(limits)
        if abort:
            self.aborted = True
            self._over = Ended("aborted")

    def lose(self, reason: str) -> None:
        """The lease is somebody else's."""
        self._over = Ended("lease-lost", reason)

    def next(self, now: float, health: Health) -> Wait | Start | Ended:
        """`now` in seconds of the node's clock."""
        number = self._next_number()
        if self._over is not None or number is None:
            return self._over or Ended("applied")
        if now >= self.plan.expires:
            return Ended("expired", "plan again: what it was made from is too old")
        waiting = self._hindrance(now, health)
        self.why = waiting.why if waiting else ""
        return waiting or Start(number, self.plan.moves[number], self.placement_version)

    def ended(self, number: int, result: Result, now: float, took: float) -> None:
        """A move is over, `took` seconds after it was begun."""
        self.results.append((number, result))
        if result.placement_version is not None and result.result != "stale":
            self.placement_version = result.placement_version
        self._last, self._last_begun = result, now - took
        if result.result in DONE:
            self.done.add(number)
            self._attempts = 0
            return
        self._attempts += 1
        if result.result == "stale":
            self._over = Ended("stale", result.reason)
        elif result.result not in AGAIN or self._attempts >= ATTEMPTS:
            move = self.plan.moves[number]
            self._over = Ended("stopped", f"queue '{move.queue}': {result.result}, {result.reason}")
        else:
            self._not_before = now + BACK_OFF_SECONDS[self._attempts]

    def progress(self) -> dict[str, Any]:
        """How far it is, for who asks."""
        made = [result for _, result in self.results if result.result == "moved"]
        return {
            "moves": len(self.plan.moves),
            "done": len(self.done),
            "messages": sum(result.messages for result in made),
            "bytes": sum(result.octets for result in made),
            "waits_for": self.why,
        }

    def _next_number(self) -> int | None:
        return next((number for number in range(len(self.plan.moves)) if number not in self.done), None)

    def _hindrance(self, now: float, health: Health) -> Wait | None:
        if self.limits.moves < 1:
            return Wait(PAUSED_SECONDS, "an operator: no moves at present")
        if trouble := health.trouble(self.limits):
            seconds = BACK_OFF_SECONDS[min(self._troubled, len(BACK_OFF_SECONDS) - 1)]
            self._troubled += 1
            return Wait(seconds, trouble)
        self._troubled = 0
        if now < self._not_before:
            return Wait(self._not_before - now, "another attempt")
        paced = self._last_begun + self._paced_seconds()
        return Wait(paced - now, "its limits") if now < paced else None

    def _paced_seconds(self) -> float:
        """How long what the last move copied has to take, to keep the rates as they are now."""
        if self._last is None:
            return 0.0
        rates = (
            (self._last.messages, self.limits.messages_per_second),
            (self._last.octets, self.limits.bytes_per_second),
        )
        return max(amount / rate if rate else 0.0 for amount, rate in rates)


def resumed(plan: Plan, records: Sequence[Mapping[str, Any]]) -> tuple[set[int], int, int | None]:
    """Of an earlier attempt, by its records: moves done, the version that it left, the move whose end is not known."""
    done: set[int] = set()
    version, open_move = plan.placement_version, None
    for record in records:
        if record["event"] == "start":
            open_move = record["number"]
        elif record["event"] == "move":
            open_move = None
            if record["result"] in DONE:
                done.add(record["number"])
            if record["placement_version"] is not None:
                version = record["placement_version"]
    return done, version, open_move
