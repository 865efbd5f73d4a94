"""Decisions of automatic rebalancing. The last test plays random courses of weeks and checks what may never happen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.balancer.deciding import Deciding, GiveUp, Make, Resume, Situation, Wait, Watch
from ops.balancer.rest import Budget
from ops.balancer.stage import Stage
from ops.balancer.verdict import Judged, Verdict
from ops.rebalance.automatic import Pause
from ops.rebalance.past import DAY, Past, PastMove, PastPlan, past_of
from penstock.settings.automatic import AutomaticSettings
from penstock.text.times_of_day import DAY_SECONDS, seconds_until, span_of

NOON, MIDNIGHT = 12 * 3600, 0
START = 100 * DAY
NIGHT = ("22:00-06:00",)
UNEVEN, EVEN, SILENT = (Judged(verdict, verdict.name) for verdict in (Verdict.UNEVEN, Verdict.EVEN, Verdict.SILENT))


def settings(**given: Any) -> AutomaticSettings:
    chosen: dict[str, Any] = {"mode": "on", "windows": 2, "every_seconds": 60, "moves_per_run": 5}
    return AutomaticSettings(**{**chosen, **given})


def at(second: int, **given: Any) -> Situation:
    return Situation(START + second, second, **given)


def ready(core: Deciding, second: int) -> int:
    """Have the core see as many uneven windows as it needs from a second of the day on; return the second after."""
    for _ in range(core.settings.windows):
        step = core.next_step(at(second))
        assert isinstance(step, Watch), step
        core.record_window(UNEVEN, [], 7, START + second + 1)
        second += 61
    assert core.stage is Stage.READY
    return second


def test_a_plan_is_made_after_enough_uneven_windows() -> None:
    core = Deciding(settings())
    assert core.next_step(at(NOON)) == Watch(60.0, Wait("no window was uneven of late", START + NOON + 60))
    core.record_window(UNEVEN, [], 7, START + NOON)
    waits = core.next_step(at(NOON + 1))
    assert waits == Wait("1 of 2 windows were uneven: UNEVEN", START + NOON + 60)
    assert isinstance(core.next_step(at(NOON + 60)), Watch)
    core.record_window(UNEVEN, [], 7, START + NOON + 60)
    made = core.next_step(at(NOON + 61))
    assert made == Make([], 7, "UNEVEN", Budget(5, 1024**3), frozenset(), applies=True)
    core.begun()
    assert core.stage is Stage.APPLYING
    core.ended()
    assert isinstance(core.next_step(at(NOON + 120)), Watch), "a new series begins"


def test_a_clock_that_is_set_back_delays_no_window_for_long() -> None:
    core = Deciding(settings())
    assert isinstance(core.next_step(Situation(START + 9 * DAY, NOON)), Watch)
    waits = core.next_step(at(NOON))
    assert waits == Wait("no window was uneven of late", START + NOON + 60)
    assert isinstance(core.next_step(at(NOON + 60)), Watch)


def test_an_even_window_ends_a_series_and_a_silent_one_does_not() -> None:
    core = Deciding(settings())
    for second, judged in enumerate((UNEVEN, EVEN, UNEVEN, SILENT)):
        assert isinstance(core.next_step(at(NOON + 61 * second)), Watch)
        core.record_window(judged, [], 7, START + NOON + 61 * second)
    assert core.stage is Stage.WATCHING
    assert isinstance(core.next_step(at(NOON + 300)), Watch)
    core.record_window(UNEVEN, [], 7, START + NOON + 300)
    assert core.stage is Stage.READY


def test_a_changed_placement_ends_a_series() -> None:
    core = Deciding(settings())
    for version in (7, 8):
        core.next_step(at(NOON))
        core.record_window(UNEVEN, [], version, START + NOON)
    assert core.stage is Stage.WATCHING


def test_the_load_of_the_day_is_acted_on_in_the_quiet_hours() -> None:
    core = Deciding(settings(quiet_hours=NIGHT))
    after = ready(core, NOON)
    assert isinstance(core.next_step(at(after)), Watch), "windows go on"
    core.record_window(SILENT, [], 7, START + after)
    waits = core.next_step(at(after + 1))
    assert waits == Wait("UNEVEN; it waits for the quiet hours", START + 22 * 3600)
    assert isinstance(core.next_step(at(22 * 3600)), Make)


def test_an_even_window_before_the_quiet_hours_calls_it_off() -> None:
    core = Deciding(settings(quiet_hours=NIGHT))
    after = ready(core, NOON)
    core.next_step(at(after))
    core.record_window(EVEN, [], 7, START + after)
    assert core.stage is Stage.WATCHING


def test_uneven_windows_are_forgotten_after_a_day() -> None:
    core = Deciding(settings(quiet_hours=("12:00-12:01",)))
    ready(core, NOON + 120)
    late = Situation(START + NOON + 120 + DAY + 200, NOON + 320)
    assert isinstance(core.next_step(late), Watch)
    assert core.stage is Stage.WATCHING


def test_a_dry_run_keeps_a_plan_at_any_hour_and_waits_for_an_operator() -> None:
    core = Deciding(settings(mode="dry-run", quiet_hours=NIGHT))
    after = ready(core, NOON)
    made = core.next_step(at(after))
    assert isinstance(made, Make) and not made.applies
    core.kept()
    kept = PastPlan("p", START + after, ours=True, expires=START + after + 3600)
    assert core.next_step(at(after, past=Past((kept,)))) == Wait("plan p waits for an operator", START + after + 3600)
    assert isinstance(core.next_step(at(after + 3600, past=Past((kept,)))), Watch)


@pytest.mark.parametrize(
    ("hindrance", "why"),
    [
        ({"pause": Pause("ann")}, "ann has paused it"),
        ({"pause": Pause("ann", START + DAY)}, "ann has paused it"),
        ({"stopping": True}, "the node stops"),
    ],
)
def test_an_operator_ends_a_run_and_hinders_the_next(hindrance: dict[str, Any], why: str) -> None:
    core = Deciding(settings())
    after = ready(core, NOON)
    core.begun()
    assert core.objection(at(after), "p") == ""
    assert core.objection(at(after, **hindrance), "p") == why
    core.ended()
    waits = core.next_step(at(after, **hindrance))
    assert isinstance(waits, Wait) and waits.why == why


def test_another_plan_hinders() -> None:
    core = Deciding(settings())
    after = ready(core, NOON)
    assert core.next_step(at(after, applied="q")) == Wait("plan q is being applied")
    assert core.stage is Stage.IDLE
    assert isinstance(core.next_step(at(after + 60)), Watch), "what was seen before does not count"


def test_the_settings_may_change_at_any_time() -> None:
    core = Deciding(settings())
    after = ready(core, NOON)
    core.settings = settings(mode="off")
    assert core.next_step(at(after)) == Wait("it is off")
    core.settings = settings()
    after = ready(core, after + 60)
    core.begun()
    core.settings = settings(mode="dry-run")
    assert core.objection(at(after), "p") == "automatic rebalancing is dry-run"


def test_a_run_ends_with_the_quiet_hours() -> None:
    core = Deciding(settings(quiet_hours=NIGHT))
    ready(core, MIDNIGHT)
    core.begun()
    assert core.objection(at(6 * 3600 - 1), "p") == ""
    assert core.objection(at(6 * 3600), "p") == "the quiet hours are over"


def test_a_plan_whose_process_died_goes_on_or_is_given_up() -> None:
    interrupted = Past((PastPlan("p", START, "automatic", ours=True),))
    assert Deciding(settings()).next_step(at(NOON, past=interrupted)) == Resume("p")
    core = Deciding(settings(quiet_hours=NIGHT))
    assert core.next_step(at(NOON, past=interrupted)) == GiveUp("p", "the quiet hours are over")
    waits = core.next_step(at(NOON, past=interrupted, applied="p"))
    assert waits == Wait("plan p is being applied"), "its lease has not expired"


QUEUES = [("/", name) for name in "abcdef"]


@dataclass
class Course:
    """A node in virtual time, with operators: the clock, its records, and what is being applied."""

    core: Deciding
    now: float = START
    records: list[dict[str, Any]] = field(default_factory=list)
    pause: Pause | None = None
    automatic: str = ""
    operators: str = ""
    plans: int = 0
    numbers: int = 0
    seen: Judged = UNEVEN

    @property
    def situation(self) -> Situation:
        second = int(self.now) % DAY_SECONDS
        return Situation(self.now, second, past_of(self.records), self.pause, self.automatic or self.operators)

    def record(self, plan: str, event: str, **facts: Any) -> None:
        self.records.append({"at": self.now, "plan": plan, "event": event, **facts})

    def begin(self, by: str, undoes: str | None = None) -> str:
        assert not self.automatic and not self.operators, "two plans at a time"
        self.plans += 1
        plan = f"p{self.plans}"
        self.record(plan, "begun", by=by, undoes=undoes)
        self.numbers = 0
        return plan

    def move(self, plan: str, queue: tuple[str, str], nbytes: int, result: str = "moved") -> None:
        facts = {"number": self.numbers, "vhost": queue[0], "queue": queue[1]}
        self.record(plan, "start", **facts, bytes=nbytes)
        self.record(plan, "move", **facts, result=result)
        self.numbers += result == "moved"

    def turn(self, sizes: list[int]) -> None:
        """Take the next step of the core, or of the plan that it applies, with the queues of these sizes."""
        if self.automatic:
            self.go_on(sizes)
            return
        step = self.core.next_step(self.situation)
        if isinstance(step, Watch):
            self.now += step.seconds
            self.core.record_window(self.seen, [], 7, self.now)
        elif isinstance(step, Make):
            movable = [queue for queue in QUEUES if queue not in step.resting]
            if not step.applies or not movable:
                self.core.settle()
                return
            self.automatic = self.begin("automatic")
            self.core.begun()
        elif isinstance(step, GiveUp):
            self.record(step.plan, "ended", state="withdrawn")
        elif isinstance(step, Resume):
            self.automatic = step.plan
            self.core.begun()

    def go_on(self, sizes: list[int]) -> None:
        settings = self.core.settings
        situation = self.situation
        resting = situation.past.moved(self.now - settings.queue_rest_seconds)
        movable = [(queue, size) for queue, size in zip(QUEUES, sizes, strict=True) if queue not in resting]
        why = "no move is left"
        if movable:
            queue, size = movable[0]
            why = self.core.objection(situation, self.automatic, (self.numbers, size))
            if not why:
                self.check(queue, size)
                self.move(self.automatic, queue, size)
                return
        self.record(self.automatic, "ended", state="withdrawn", reason=why)
        self.automatic = ""
        self.core.ended()

    def check(self, queue: tuple[str, str], size: int) -> None:
        """Check what must hold for each move that is about to be made by itself."""
        chosen, past, second = self.core.settings, past_of(self.records), int(self.now) % DAY_SECONDS
        assert not self.operators
        assert seconds_until([span_of(each) for each in chosen.quiet_hours], second) == 0
        assert self.pause is None or not self.pause.lasts(self.now)
        day = past.own_moves(self.now - DAY)
        assert len(day) < chosen.moves_per_day
        assert sum(move.nbytes for move in day) + size <= chosen.bytes_per_day
        run = [move for move in past.moves if move.plan == self.automatic]
        assert len(run) < chosen.moves_per_run
        assert sum(move.nbytes for move in run) + size <= chosen.bytes_per_run
        assert not any(move.key == queue and move.at > self.now - chosen.queue_rest_seconds for move in past.moves)
        others = [plan for plan in past.plans if plan.id != self.automatic and plan.state]
        assert all(plan.last + chosen.rest_seconds <= self.now for plan in others if plan.by)
        undone = [plan for plan in others if plan.by == "operator" and plan.undoes]
        assert all(plan.last + chosen.undo_rest_seconds <= self.now for plan in undone)

    def operate(self, undoes: bool) -> None:
        """An operator applies a plan, of one queue, in no time."""
        if not self.automatic:
            ours = [plan.id for plan in past_of(self.records).plans if plan.by == "automatic"]
            self.operators = self.begin("operator", ours[-1] if undoes and ours else None)
            assert isinstance(self.core.next_step(self.situation), Wait)
            self.move(self.operators, QUEUES[0], 1)
            self.record(self.operators, "ended", state="applied")
            self.operators = ""

    def die(self) -> None:
        """The process of the balancer dies; the next one begins once the lease is over."""
        self.core = Deciding(self.core.settings)
        self.automatic = ""
        self.now += 15
        interrupted = past_of(self.records).interrupted
        if interrupted is not None:
            self.numbers = sum(move.plan == interrupted.id for move in past_of(self.records).moves)


EVENTS = st.one_of(
    st.tuples(st.just("turn"), st.lists(st.integers(1, 60), min_size=len(QUEUES), max_size=len(QUEUES))),
    st.tuples(st.just("pass"), st.sampled_from([1, 60, 3600, 6 * 3600, 86400])),
    st.tuples(st.just("see"), st.sampled_from([UNEVEN, UNEVEN, EVEN, SILENT])),
    st.tuples(st.just("operate"), st.booleans()),
    st.tuples(st.just("pause"), st.sampled_from([None, 60.0, 7200.0])),
    st.tuples(st.sampled_from(["resume", "die"]), st.none()),
)
SETTINGS = st.builds(
    settings,
    quiet_hours=st.sampled_from([(), NIGHT, ("12:00-13:00", "20:00-21:00")]),
    windows=st.integers(1, 2),
    moves_per_run=st.integers(1, 4),
    moves_per_day=st.integers(1, 6),
    bytes_per_run=st.integers(30, 100),
    bytes_per_day=st.integers(30, 200),
    rest_seconds=st.sampled_from([0, 600, 7200]),
    undo_rest_seconds=st.sampled_from([0, 3600, 200_000]),
    queue_rest_seconds=st.sampled_from([0, 3600, 86400]),
)


@given(chosen=SETTINGS, events=st.lists(EVENTS, max_size=60), busy=st.integers(0, 20))
def test_no_course_breaks_a_limit(chosen: AutomaticSettings, events: list[tuple[str, Any]], busy: int) -> None:
    """Never two plans at a time, outside of quiet hours, in a pause or a rest, beyond a limit, or one queue again."""
    course = Course(Deciding(chosen))
    quick = [("turn", [1] * len(QUEUES)), ("pass", 60)] * busy
    for what, with_what in (*quick, *events, *quick):
        if what == "turn":
            course.turn(with_what)
        elif what == "pass":
            course.now += with_what
        elif what == "see":
            course.seen = with_what
        elif what == "operate":
            course.operate(with_what)
        elif what == "pause":
            course.pause = Pause("ann", None if with_what is None else course.now + with_what)
        elif what == "resume":
            course.pause = None
        else:
            course.die()


def test_a_course_moves_queues() -> None:
    """The property above is not empty: left alone, each queue is moved once, and again only after its rest."""
    course = Course(Deciding(settings(moves_per_run=2, rest_seconds=600, queue_rest_seconds=7200)))
    for _ in range(400):
        course.turn([1] * len(QUEUES))
        course.now += 30
    moves = past_of(course.records).moves
    assert {move.key for move in moves} == set(QUEUES)
    assert len(moves) > len(QUEUES)


def test_the_moves_of_a_day_are_counted() -> None:
    moves = tuple(PastMove("p", number, START - number, QUEUES[number], 10, "automatic") for number in range(3))
    core = Deciding(settings(moves_per_day=3))
    waits = core.next_step(at(NOON, past=Past((), moves[::-1])))
    assert waits == Wait("3 moves a day are made", START - 2 + DAY)
