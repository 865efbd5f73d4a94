"""Applies a plan to a node: the lease, the moves, the records; `ops.rebalance.applying` chooses the next step.

Each move is requested in a thread of its own: the lease is renewed, an abort is noticed, and other moves are begun
meanwhile.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Protocol

from ops.errors import CommandError
from ops.operator_name import operator_name
from ops.rebalance.applying import Applying, Ended, Limits, Result, Start, Wait, earlier_state
from ops.rebalance.node import RunningNode
from ops.rebalance.plan import Move, Plan
from ops.rebalance.records import By, Facts, Records
from penstock.control.control import Refusal
from penstock.node import clock

LEASE_SECONDS = 15.0
RENEW_SECONDS = 2.0
POLL_SECONDS = 0.2
SILENT_SECONDS = 60.0
"""How long the node may not answer before the result of a move is given up as unknown."""

MOVES_AT_ONCE_MAX = 16
"""The most moves that a router makes at a time (`router.authority.moving`)."""

Report = Callable[[str], None]


class Objection(Protocol):
    """Returns the reason why a run must end, "" if it may go on: at any time, or before it begins a move, given by its
    number and the bytes that it copies.
    """

    def __call__(self, move: tuple[int, int] | None = None) -> str: ...


@dataclass(slots=True)
class UnderWay:
    """A move under way, begun at this time of the monotonic clock, and whether the node was asked to roll it back."""

    step: Start
    began: float
    aborted: bool = False


class Run:
    """One attempt to apply a plan. CommandError, before any move, if the plan cannot be applied.

    That of an operator ends at Ctrl-C or SIGTERM; that of automatic rebalancing when it has an `objection`.
    """

    def __init__(
        self,
        node: RunningNode,
        records: Records,
        plan: Plan,
        limits: Limits,
        report: Report,
        objection: Objection | None = None,
    ) -> None:
        self.node, self.records, self.plan, self.report = node, records, plan, report
        self.by: By = "operator" if objection is None else "automatic"
        self._objection = objection or _none
        name = operator_name() if self.by == "operator" else "automatic"
        self.holder = f"{name}@{socket.gethostname()}:{os.getpid()}"
        done, version, unended = earlier_state(plan, records.of_plan(plan.id))
        self.applying = Applying(plan, version, limits, done)
        self._under_way: dict[Future[Result], UnderWay] = {}
        self._interrupted = False
        self._answered = self._renewed = 0.0
        self._begin(version, unended)

    @property
    def moved(self) -> int:
        """The number of moves made."""
        return sum(result.result == "moved" for _, result in self.applying.results)

    def _begin(self, version: int, unended: set[int]) -> None:
        """Take the lease. CommandError if the placement has changed since the plan, or its last attempt; the node may
        have completed moves that were `unended` then.
        """
        if clock.now() >= self.plan.expires:
            raise CommandError(f"plan {self.plan.id} has expired: plan again")
        try:
            self._request_lease()
            placement = self.node.placement()
        except Refusal as refusal:
            raise CommandError(str(refusal)) from None
        completed = {number for number in unended if _is_on_target(placement, self.plan.moves[number])}
        if version + len(completed) == placement["version"]:
            self.applying.done |= completed
            version = placement["version"]
        self.applying.placement_version = version
        if placement["version"] != version:
            self._release_lease()
            raise CommandError(
                f"the placement is of version {placement['version']}, plan {self.plan.id} is for {version}: plan again"
            )

    def run(self) -> Ended:
        """Make the remaining moves, and release the lease."""
        ended = Ended("stopped", "interrupted")
        try:
            self._require(self.records.begun(self.plan, self.by, self.holder, self.applying.placement_version))
            with (
                self._signals() if self.by == "operator" else nullcontext(),
                ThreadPoolExecutor(max_workers=MOVES_AT_ONCE_MAX) as pool,
            ):
                ended = self._run(pool)
        except CommandError as error:
            ended = Ended("stopped", str(error))
        finally:
            self.records.ended(self.plan.id, ended)
            self._release_lease()
        return ended

    def _run(self, pool: ThreadPoolExecutor) -> Ended:
        waited_for = ""
        while True:
            self._record_ended()
            self._renew_lease()
            if self._interrupted or self.applying.aborted:
                self._abort_moves()
            step = self.applying.next_step(clock.now(), self.node.health())
            if isinstance(step, Ended):
                return step
            if isinstance(step, Wait):
                if step.why and step.why != waited_for:
                    self.report(f"waits: {step.why}")
                waited_for = step.why or waited_for
                if self._under_way:
                    time.sleep(min(step.seconds, POLL_SECONDS))
                else:
                    self._sleep(min(step.seconds, RENEW_SECONDS))
                continue
            waited_for = ""
            nbytes = self._bytes_of(step.move)
            if reason := self._objection((step.number, nbytes)):
                self.applying.withdraw(reason)
            else:
                self._begin_move(pool, step, nbytes)

    def _sleep(self, seconds: float) -> None:
        """Sleep, but no longer than until the run must end."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._interrupted and not self._objection():
            time.sleep(min(left, POLL_SECONDS))

    def _require(self, written: bool) -> None:
        """Raise CommandError if a record of automatic rebalancing is lost: its limits and rests follow from them."""
        if not written and self.by == "automatic":
            raise CommandError("its records cannot be written")

    def _bytes_of(self, move: Move) -> int:
        """Return the present bytes of a queue; 0 if it is gone."""
        found = self.node.gauges.queues_by_id().get(move.queue_id)
        return 0 if found is None else found.whole_bytes

    def _begin_move(self, pool: ThreadPoolExecutor, step: Start, nbytes: int) -> None:
        self._require(self.records.start(self.plan, step, nbytes))
        self.applying.begin(step)
        obstacle = self._obstacle(step.move)
        if obstacle is not None:
            self._record(step, obstacle, 0.0)
        else:
            self._under_way[pool.submit(self._ask, step)] = UnderWay(step, time.monotonic())

    def _record_ended(self) -> None:
        """Record the moves that have ended."""
        for asked in [asked for asked in self._under_way if asked.done()]:
            move = self._under_way.pop(asked)
            self._record(move.step, asked.result(), time.monotonic() - move.began)

    def _record(self, step: Start, result: Result, took: float) -> None:
        self.records.move(self.plan, step, result)
        self.applying.record_result(step.number, result, clock.now(), took)
        self.report(describe_move(step, len(self.plan.moves), result))

    def _abort_moves(self) -> None:
        """Have the node roll back the moves that still can be."""
        for under_way in self._under_way.values():
            if under_way.aborted:
                continue
            under_way.aborted = True
            move = under_way.step.move
            try:
                self.node.ask("queue_move_abort", vhost=move.vhost, name=move.queue)
            except (CommandError, Refusal) as error:
                self.report(f"the move of queue '{move.queue}' goes on: {error}")

    def _obstacle(self, move: Move) -> Result | None:
        """Return the result of a move that has become impossible since the plan was made; None if it is possible."""
        found = {(each.vhost, each.name): each for each in self.node.gauges.queues_by_id().values()}.get(move.key)
        if found is None:
            return Result("no-queue", "it has been deleted")
        if found.queue_id != move.queue_id:
            return Result("replaced", "it has been deleted and declared again")
        gate = self.node.gauges.queue_read(move.target)
        nbytes = found.whole_bytes
        if gate is not None and gate.marks.stop_bytes and gate.ready_bytes + nbytes > gate.marks.stop_bytes:
            return Result("refused", f"shard {move.target} has no memory for its {nbytes} bytes")
        return None

    def _ask(self, step: Start) -> Result:
        """Request a move, and wait for its end. If the answer is lost, the placement shows the result."""
        move = step.move
        try:
            answer = self.node.ask(
                "queue_move",
                vhost=move.vhost,
                name=move.queue,
                shard=move.target,
                placement_version=step.placement_version,
                plan=self.plan.id,
            )
        except Refusal as refusal:
            return Result("no-queue" if refusal.kind == "not_found" else "refused", str(refusal))
        except CommandError as error:
            return self._result_by_placement(step, str(error))
        return Result.of(answer)

    def _result_by_placement(self, step: Start, reason: str) -> Result:
        deadline = time.monotonic() + SILENT_SECONDS
        while time.monotonic() < deadline:
            try:
                placement = self.node.placement()
            except CommandError as error:  # the router is being restarted
                reason = str(error)
            else:
                if step.move.queue_id not in [each["queue_id"] for each in placement["moves"]]:
                    moved = _is_on_target(placement, step.move)
                    return Result("moved" if moved else "rolled-back", reason, placement_version=placement["version"])
                deadline = time.monotonic() + SILENT_SECONDS
            time.sleep(POLL_SECONDS)
        return Result("unknown", reason)

    def _renew_lease(self) -> None:
        """Renew the lease when it is due, and take over changes by operators."""
        if self._interrupted:
            self.applying.apply_controls(asdict(self.applying.limits), abort=True)
        elif reason := self._objection():
            self.applying.withdraw(reason)
        if time.monotonic() - self._renewed < RENEW_SECONDS:
            return
        try:
            self._request_lease()
        except Refusal as refusal:
            self.applying.lose_lease(str(refusal))
        except CommandError as error:
            self._renewed = time.monotonic()
            if time.monotonic() - self._answered > LEASE_SECONDS:
                self.applying.lose_lease(f"no answer from the node for {LEASE_SECONDS:g} s: {error}")

    def _request_lease(self) -> None:
        lease: Facts = self.node.ask(
            "rebalance_hold",
            plan=self.plan.id,
            holder=self.holder,
            seconds=LEASE_SECONDS,
            limits=asdict(self.applying.limits),
            progress=self.applying.progress(),
        )
        self._answered = self._renewed = time.monotonic()
        self.applying.apply_controls(lease["limits"], lease["abort"])

    def _release_lease(self) -> None:
        try:
            self.node.ask("rebalance_release", plan=self.plan.id, holder=self.holder)
        except (CommandError, Refusal) as error:
            self.report(f"the lease is not released, it ends in {LEASE_SECONDS:g} s: {error}")

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Let Ctrl-C and SIGTERM end the attempt cleanly: moves under way are rolled back or finished first."""

        def interrupt(_number: int, _frame: FrameType | None) -> None:
            self._interrupted = True

        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _none(move: tuple[int, int] | None = None) -> str:
    return ""


def describe_move(step: Start, moves: int, result: Result) -> str:
    """Describe a move and its result in one line."""
    move = step.move
    line = f"{step.number + 1}/{moves} queue '{move.queue}' in '{move.vhost}', shard {move.source} to {move.target}: "
    line += result.result
    if result.result == "moved" and result.pause_ms is not None:
        line += f", paused for {result.pause_ms:.1f} ms, {result.messages} messages"
    return f"{line} ({result.reason})" if result.reason else line


def _is_on_target(placement: Facts, move: Move) -> bool:
    """Whether the queue of a move is on its target."""
    return any(each["id"] == move.queue_id and each["shard"] == move.target for each in placement["queues"])
