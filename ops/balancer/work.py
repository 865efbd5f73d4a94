"""The work of the balancer, in a thread of its own: a node, a clock and files around `ops.balancer.deciding`."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from ops.balancer.deciding import Deciding, Make, Resume, Situation, Step, Wait, Watch
from ops.balancer.stage import Stage
from ops.balancer.verdict import judge, settled, unsettled
from ops.errors import CommandError
from ops.rebalance.applying import Ended
from ops.rebalance.automatic import PauseFile, Said, said_file
from ops.rebalance.configured import limits_of, rules_of
from ops.rebalance.goals import Rules
from ops.rebalance.making import make_plan
from ops.rebalance.node import CPU_SECONDS_MIN, RunningNode
from ops.rebalance.past import Past, past_of
from ops.rebalance.plan import Plan, PlanError
from ops.rebalance.records import Records
from ops.rebalance.running import Run
from penstock.node import clock
from penstock.node.logs import get_logger
from penstock.settings.sections import RebalanceSettings
from penstock.text.durations import shown

POLL_SECONDS = 1.0
"""Between two decisions while nothing is due."""
CPU_SECONDS = 2 * CPU_SECONDS_MIN
"""How long CPU use is measured before a plan."""

log = get_logger()


class Stopped(Exception):
    """The process is to end."""


class Work:
    """The work of one incarnation; `settings` may be replaced, and `stop` called, by another thread."""

    def __init__(self, data: Path, settings: RebalanceSettings) -> None:
        self.settings = settings
        self._stopping = threading.Event()
        self._node = RunningNode(data, self._sleep)
        self._records = Records(data)
        self._pause = PauseFile(data)
        self._said_file = said_file(data)
        self._said: Said | None = None
        self._core = Deciding(settings.automatic)
        self._past = Past()
        self._past_of: tuple[int, ...] = ()

    def stop(self) -> None:
        """Have `run` return soon: a move in progress is rolled back or finished first."""
        self._stopping.set()

    def run(self) -> None:
        """Work until it is asked to stop."""
        while not self._stopping.is_set():
            try:
                self._turn()
                self._sleep(POLL_SECONDS)
            except Stopped:
                return
            except CommandError as error:
                self._say(str(error))
                self._stopping.wait(POLL_SECONDS)

    def _turn(self) -> None:
        step = self._next_step()
        if isinstance(step, Wait):
            self._say(step.why, step.until)
        elif isinstance(step, Watch):
            self._watch(step)
        elif isinstance(step, Make):
            self._make(step)
        elif isinstance(step, Resume):
            self._resume(step)
        else:
            self._give_up(step.plan, step.why)

    def _next_step(self) -> Step:
        lease = self._node.ask("rebalance_lease") if self.settings.automatic.mode != "off" else None
        return self._core.next_step(self._situation(lease["plan"] if lease else ""))

    def _situation(self, applied: str = "") -> Situation:
        self._core.settings = self.settings.automatic
        now = time.time()
        local = time.localtime(now)
        second = 3600 * local.tm_hour + 60 * local.tm_min + min(local.tm_sec, 59)
        return Situation(now, second, self._read_past(), self._pause.read(), applied, self._stopping.is_set())

    def _read_past(self) -> Past:
        """Return the past; the file is read when it has changed."""
        try:
            stat = self._records.path.stat()
            state: tuple[int, ...] = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        except FileNotFoundError:
            state = (0,)
        if state != self._past_of:
            self._past, self._past_of = past_of(self._records.all()), state
        return self._past

    def _sleep(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise Stopped

    # The steps

    def _watch(self, step: Watch) -> None:
        self._say(step.wait.why, step.wait.until)
        rows, world = self._node.watched(step.seconds, lambda part: None)
        judged = judge(rows, world, self._rules(), self.settings.automatic.imbalance_percent)
        self._core.record_window(judged, rows, world.placement_version, time.time())
        log.debug("rebalancing: window", verdict=judged.verdict.name, why=judged.why)

    def _make(self, step: Make) -> None:
        rows, world = self._node.recorded(list(step.rows), CPU_SECONDS)
        if world.placement_version != step.placement_version or unsettled(world):
            self._core.settle()
            return
        settings = self.settings
        try:
            plan = make_plan(
                rows, world, settled(self._rules(), *step.budget, step.resting),
                source=f"gauges, {shown(settings.automatic.window_seconds)}, automatic", now=clock.now(),
                lasts=settings.plan_seconds, pause_ms=self._records.expected_pause(),
            )  # fmt: skip
        except PlanError as error:
            self._core.settle()
            log.info("rebalancing: no plan", reason=step.why, problem=str(error))
            return
        if not plan.moves:
            self._core.settle()
            log.info("rebalancing: no move would help", reason=step.why, notes=list(plan.notes))
            return
        self._records.keep(plan)
        if step.applies:
            try:
                self._apply(plan, step.why)
            except CommandError:
                self._core.settle()
                raise
        elif self._records.kept(plan, time.time() + settings.plan_seconds):
            self._core.kept()
            log.info("rebalancing: plan kept for an operator", plan=plan.id, moves=len(plan.moves), reason=step.why)
        else:
            raise CommandError("its records cannot be written")

    def _resume(self, step: Resume) -> None:
        try:
            self._apply(self._records.plan(step.plan), "its process died")
        except CommandError as error:
            self._give_up(step.plan, str(error))

    def _apply(self, plan: Plan, why: str) -> None:
        """Apply a plan. CommandError, before any move, if that cannot be done."""

        def objection(move: tuple[int, int] | None = None) -> str:
            return self._core.objection(self._situation(), plan.id, move)

        run = Run(self._node, self._records, plan, limits_of(self.settings), self._report, objection)
        self._core.begun()
        log.info("rebalancing: plan begun", plan=plan.id, moves=len(plan.moves), reason=why)
        self._say(f"applies plan {plan.id}: {why}")
        ended = run.run()
        self._core.ended()
        log.info("rebalancing: plan ended", plan=plan.id, state=ended.state, moved=run.moved, reason=ended.reason)

    def _give_up(self, plan: str, why: str) -> None:
        if not self._records.ended(plan, Ended("withdrawn", why)):
            raise CommandError("its records cannot be written")
        log.info("rebalancing: plan is not continued", plan=plan, reason=why)

    def _report(self, line: str) -> None:
        log.info("rebalancing: plan", progress=line)

    def _rules(self) -> Rules:
        """Return the rules of the settings, for the goals chosen there."""
        return rules_of(self.settings, goals=self.settings.automatic.goals)

    # What operators see

    def _say(self, why: str, until: float | None = None) -> None:
        """Tell operators the present stage; log a new one, and a new reason for doing nothing."""
        stage, before = self._core.stage, self._said
        is_new = before is None or before.stage != stage.name.lower() or (stage is Stage.IDLE and before.why != why)
        since = time.time() if before is None or is_new else before.since
        self._said = Said(stage.name.lower(), why, since, until)
        self._said_file.keep([self._said._asdict()])
        if is_new:
            log.info("rebalancing: stage", stage=self._said.stage, reason=why)
