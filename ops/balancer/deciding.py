"""Decides when a node makes a plan by itself and when it applies it; without a node, a clock or a file.

    next_step(situation)  ──▶  Wait(why, until)       ask again soon
                          ──▶  Watch(seconds)         record_window(…) follows
                          ──▶  Make(rows, …)          kept(), begun() or settle() follows
                          ──▶  Resume(plan)           begun() or nothing follows
                          ──▶  GiveUp(plan, why)      the record of its end follows

An attempt is over with ended(). While it lasts, objection(situation) is the reason why it must end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ops.balancer.rest import Budget, budget, excess, rest
from ops.balancer.stage import BALANCER, Event, Stage
from ops.balancer.verdict import Judged, Verdict
from ops.rebalance.automatic import Pause
from ops.rebalance.past import DAY, Key, Past
from ops.rebalance.rows import QueueRow
from penstock.settings.automatic import AutomaticSettings
from penstock.states.transitions import Staged
from penstock.text.times_of_day import seconds_until, span_of

STOPPING = "the node stops"


@dataclass(frozen=True, slots=True)
class Situation:
    """The present situation: `now` in seconds since 1970, `second` of the day in local time, `applied` the plan for
    which there is a lease, "" if there is none.
    """

    now: float
    second: int
    past: Past = field(default_factory=Past)
    pause: Pause | None = None
    applied: str = ""
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing, at most until a time in seconds since 1970; None is until something changes."""

    why: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch the load for so long; `wait` says why nothing is moved meanwhile."""

    seconds: float
    wait: Wait


@dataclass(frozen=True, slots=True)
class Make:
    """Make a plan from the rows of an uneven window, which was seen at `placement_version`, and keep or apply it."""

    rows: Sequence[QueueRow]
    placement_version: int
    why: str
    budget: Budget
    resting: frozenset[Key]
    applies: bool


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on with a plan whose process died."""

    plan: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Record the end of a plan whose process died, as nobody goes on with it."""

    plan: str
    why: str


Step = Wait | Watch | Make | Resume | GiveUp


@dataclass(frozen=True, slots=True)
class _Window:
    """An uneven window."""

    at: float
    rows: Sequence[QueueRow]
    placement_version: int
    why: str


class Deciding(Staged[Stage, Event]):
    """The decisions of one process; windows that an earlier one has seen do not count."""

    transitions = BALANCER

    def __init__(self, settings: AutomaticSettings) -> None:
        self.stage = Stage.IDLE
        self.settings = settings
        self._uneven: list[_Window] = []
        self._next_window = 0.0

    def next_step(self, situation: Situation) -> Step:
        """Return the next step; not while a plan is being applied."""
        now, past = situation.now, situation.past
        if situation.applied:
            return self._hindered(Wait(f"plan {situation.applied} is being applied"))
        if past.interrupted is not None:
            return self._after_death(past.interrupted.id, situation)
        if (hindrance := self._hindrance(situation)) is not None:
            return self._hindered(hindrance)
        if (resting := rest(past, self.settings, now)) is not None:
            return self._hindered(Wait(resting.why, resting.until))
        if self.stage is Stage.IDLE:
            self.happened(Event.FREED)
        self._uneven = [each for each in self._uneven if each.at > now - DAY]
        if not self._uneven:
            self.settle()
        if self.stage is Stage.READY and (step := self._due(situation)) is not None:
            return step
        self._next_window = min(self._next_window, now + self.settings.every_seconds)  # the clock may be set back
        if now < self._next_window:
            return self._until_next_window(situation)
        self._next_window = now + self.settings.every_seconds
        return Watch(self.settings.window_seconds, self._until_next_window(situation))

    def record_window(self, judged: Judged, rows: Sequence[QueueRow], placement_version: int, now: float) -> None:
        """Record a window, which has just ended. One that says nothing neither counts nor ends a series of uneven ones:
        the load of the day is acted on in a night without load.
        """
        if self._uneven and self._uneven[-1].placement_version != placement_version:
            self.settle()
        if judged.verdict is Verdict.EVEN:
            self.settle()
        elif judged.verdict is Verdict.UNEVEN:
            self._uneven.append(_Window(now, rows, placement_version, judged.why))
            del self._uneven[: -self.settings.windows]
            if self.stage is Stage.WATCHING and len(self._uneven) >= self.settings.windows:
                self.happened(Event.PERSISTED)

    def settle(self) -> None:
        """Forget the uneven windows: they are too old or led to no move, or the placement has changed."""
        self._uneven = []
        if self.stage is Stage.READY:
            self.happened(Event.SETTLED)

    def kept(self) -> None:
        """A plan was kept for an operator."""
        self._uneven = []
        self.happened(Event.KEPT)

    def begun(self) -> None:
        """A plan is being applied."""
        self._uneven = []
        self.happened(Event.BEGUN)

    def ended(self) -> None:
        """The plan has ended."""
        self.happened(Event.ENDED)

    def objection(self, situation: Situation, plan: str, move: tuple[int, int] | None = None) -> str:
        """Return why a plan may not go on, or may not begin a move, given by its number and bytes; "" if it may."""
        hindrance = self._hindrance(situation)
        if hindrance is not None:
            return hindrance.why
        if self.settings.mode != "on":
            return f"automatic rebalancing is {self.settings.mode}"
        if self._until_quiet(situation):
            return "the quiet hours are over"
        if move is not None:
            return excess(situation.past, self.settings, plan, *move, situation.now)
        return ""

    def _hindrance(self, situation: Situation) -> Wait | None:
        if situation.stopping:
            return Wait(STOPPING)
        if self.settings.mode == "off":
            return Wait("it is off")
        pause = situation.pause
        if pause is not None and pause.lasts(situation.now):
            return Wait(f"{pause.by} has paused it", pause.until)
        return None

    def _hindered(self, wait: Wait) -> Wait:
        if self.stage is not Stage.IDLE:
            self._uneven = []
            self.happened(Event.HINDERED)
        return wait

    def _after_death(self, plan: str, situation: Situation) -> Step:
        """Return the step for a plan whose process died."""
        why = self.objection(situation, plan)
        return GiveUp(plan, why) if why else Resume(plan)

    def _due(self, situation: Situation) -> Step | None:
        """Return the step for the plan that is due; None if it waits for the quiet hours, while windows go on."""
        applies = self.settings.mode == "on"
        if applies and self._until_quiet(situation):
            return None
        settings, past, now, last = self.settings, situation.past, situation.now, self._uneven[-1]
        resting = past.moved(now - settings.queue_rest_seconds)
        return Make(last.rows, last.placement_version, last.why, budget(past, settings, now), resting, applies)

    def _until_quiet(self, situation: Situation) -> int:
        """Return the seconds until the next quiet hours; 0 within them."""
        return seconds_until([span_of(each) for each in self.settings.quiet_hours], situation.second)

    def _until_next_window(self, situation: Situation) -> Wait:
        """Return the wait until the next window, with the reason why nothing is moved yet."""
        if self.stage is Stage.READY:
            until = situation.now + self._until_quiet(situation)
            return Wait(f"{self._uneven[-1].why}; it waits for the quiet hours", until)
        if self._uneven:
            why = f"{len(self._uneven)} of {self.settings.windows} windows were uneven: {self._uneven[-1].why}"
            return Wait(why, self._next_window)
        return Wait("no window was uneven of late", self._next_window)
