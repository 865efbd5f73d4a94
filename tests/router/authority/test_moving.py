"""The router's decisions on a moving queue, for every report and every death."""

from __future__ import annotations

from typing import Any

import pytest

from router.authority.moving import MOVES_MAX, PATIENCE_SECONDS
from router.model.records import COPYING, HOMING, PRECOPYING, STOPPING, Move
from tests.router.making import Asked

COPY = {"count": 3, "nbytes": 30, "checksum": 7}
NOTHING = {"count": 0, "nbytes": 0, "checksum": 0, "stop": []}


class Moved(Asked):
    """An authority whose shards are running, and the answers to the moves it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.incarnations = {0: 1, 1: 1, 2: 1}
        self.moves = self.authority.moves
        self.moves.incarnation_of = lambda shard: self.incarnations.get(shard, 0)
        self.answers: list[dict[str, Any]] = []
        self.home = self.done("queue_declare", name="q", durable=True)["shard"]
        self.target = (self.home + 1) % 3

    def stop(self) -> None:
        """Start a move, and stop the queue."""
        self.start()
        self.report("precopied", self.home)

    def start(self, name: str = "q", shard: int | None = None, version: int | None = None) -> None:
        self.moves.start("/", name, self.target if shard is None else shard, version, "p", self.answers.append)
        self.take()

    def take(self) -> None:
        self.recorded += self.authority.ledger.take_steps()
        for ended, result in self.moves.take_answers():
            ended(result)

    @property
    def move(self) -> Move:
        (move,) = self.topology.moves.values()
        return move

    def report(self, state: str, shard: int, incarnation: int = 1, epoch: int | None = None, **found: Any) -> None:
        epoch = self.move.epoch if epoch is None else epoch
        facts = {**NOTHING, "reason": "", **found}
        self.done("move_report", queue_id=1, epoch=epoch, shard=shard, incarnation=incarnation, state=state, **facts)
        self.take()

    def shard(self) -> int:
        queue = self.topology.queue("/", "q")
        assert queue
        return queue.shard


@pytest.fixture
def asked() -> Moved:
    return Moved()


def test_all_the_way(asked: Moved) -> None:
    """The home changes in one step, with its slot, the placement and the version of the placement."""
    queue = asked.topology.queue("/", "q")
    assert queue
    asked.start()
    assert (asked.move.phase, asked.shard()) == (PRECOPYING, asked.home)
    asked.time.passes(5)
    asked.report("precopied", asked.home)
    asked.time.passes(0.0125)
    assert (asked.move.phase, asked.shard()) == (STOPPING, asked.home)
    asked.report("written", asked.home, **COPY)
    assert (asked.move.phase, asked.shard()) == (COPYING, asked.home)
    asked.report("kept", asked.target, **COPY)
    assert (asked.move.phase, asked.move.outcome, asked.shard()) == (HOMING, "moved", asked.target)
    after = asked.topology.queue("/", "q")
    assert after
    assert after.slot != queue.slot
    assert not asked.answers
    asked.report("reattached", asked.target)
    assert not asked.topology.moves
    (answer,) = asked.answers
    assert answer.pop("pause_ms") == 12.5
    assert answer == {"result": "moved", "reason": "", "messages": 3, "bytes": 30, "placement_version": 1}
    assert [step.durable for step in asked.recorded if step.change[0] == "queue"] == [True, True]
    asked.done("queue_delete", queue_id=1)
    assert asked.done("queue_declare", name="q")["shard"] == asked.target


def test_a_copy_that_differs(asked: Moved) -> None:
    for wrong in ({"count": 2}, {"nbytes": 29}, {"checksum": 8}):
        asked.stop()
        asked.report("written", asked.home, **COPY)
        asked.report("kept", asked.target, **{**COPY, **wrong})
        assert (asked.move.phase, asked.move.outcome, asked.shard()) == (HOMING, "rolled-back", asked.home)
        asked.report("reattached", asked.home)
    assert [answer["result"] for answer in asked.answers] == ["rolled-back"] * 3


def test_reports_that_do_not_fit_do_nothing(asked: Moved) -> None:
    """Reports of another move, incarnation, shard or step, and repeated reports."""
    asked.start()
    asked.report("written", asked.home, **COPY)
    asked.report("kept", asked.target, **COPY)
    asked.report("precopied", asked.target)
    asked.report("precopied", asked.home, incarnation=2)
    assert asked.move.phase == PRECOPYING
    asked.report("precopied", asked.home)
    asked.report("written", asked.home, epoch=99, **COPY)
    asked.report("written", asked.home, incarnation=2, **COPY)
    asked.report("written", asked.target, **COPY)
    asked.report("kept", asked.target, **NOTHING)
    asked.report("reattached", asked.home)
    assert asked.move.phase == STOPPING
    asked.report("written", asked.home, **COPY)
    asked.report("written", asked.home, count=9)
    asked.report("kept", asked.home, **COPY)
    assert (asked.move.phase, asked.move.count) == (COPYING, 3)
    asked.report("kept", asked.target, **COPY)
    asked.report("failed", asked.target, reason="too late")
    asked.report("reattached", asked.home)
    assert (asked.move.phase, asked.move.outcome) == (HOMING, "moved")


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("dead", ["home", "target"])
@pytest.mark.parametrize("how", ["looked", "came again", "failed"])
def test_before_the_switch_it_is_rolled_back(asked: Moved, dead: str, copied: bool, how: str) -> None:
    asked.stop()
    if copied:
        asked.report("written", asked.home, **COPY)
    shard = asked.home if dead == "home" else asked.target
    if how == "looked":
        asked.incarnations[shard] = 0
        asked.moves.roll_back_failed()
    elif how == "came again":
        asked.moves.shard_started(shard, 1)
        assert asked.move.phase != HOMING
        asked.moves.shard_started(shard, 2)
    else:
        asked.report("failed", shard, reason="the disk is full")
    asked.take()
    assert (asked.move.phase, asked.move.outcome, asked.shard()) == (HOMING, "rolled-back", asked.home)
    asked.report("reattached", asked.home, incarnation=2)
    (answer,) = asked.answers
    assert answer["result"] == "rolled-back"
    assert answer["reason"] == {"failed": f"shard {shard}: the disk is full"}.get(how, f"shard {shard} has died")


def test_after_the_switch_deaths_do_not_matter(asked: Moved) -> None:
    asked.stop()
    asked.report("written", asked.home, **COPY)
    asked.report("kept", asked.target, **COPY)
    asked.incarnations = {}
    asked.moves.roll_back_failed()
    asked.moves.shard_started(asked.target, 2)
    assert (asked.move.phase, asked.move.outcome) == (HOMING, "moved")
    asked.report("reattached", asked.target, incarnation=2)
    assert asked.answers[0]["result"] == "moved"


@pytest.mark.parametrize("how", ["died", "failed", "aborted", "late"])
def test_before_the_queue_is_stopped_nothing_is_left_of_a_move_that_fails(asked: Moved, how: str) -> None:
    """Acceptors have seen nothing of it."""
    asked.start()
    if how == "died":
        asked.moves.shard_started(asked.target, 2)
    elif how == "failed":
        asked.report("failed", asked.target, reason="the disk is full")
    elif how == "aborted":
        assert asked.moves.abort("/", "q") is True
    else:
        asked.time.passes(PATIENCE_SECONDS[PRECOPYING] + 1)
        asked.moves.roll_back_failed()
    asked.take()
    assert not asked.topology.moves and asked.shard() == asked.home
    (answer,) = asked.answers
    assert (answer["result"], answer["pause_ms"]) == ("rolled-back", None)


def test_what_takes_too_long(asked: Moved) -> None:
    """The time until the queue is stopped does not count."""
    asked.start()
    asked.time.passes(PATIENCE_SECONDS[PRECOPYING])
    asked.report("precopied", asked.home)
    asked.time.passes(PATIENCE_SECONDS[STOPPING])
    asked.moves.roll_back_failed()
    assert asked.move.phase == STOPPING
    asked.time.passes(1)
    asked.moves.roll_back_failed()
    assert asked.move.outcome == "rolled-back"
    assert "took more than" in asked.move.reason


def test_abort(asked: Moved) -> None:
    assert asked.moves.abort("/", "q") is False
    asked.stop()
    assert asked.moves.abort("/", "q") is True
    assert (asked.move.outcome, asked.move.reason) == ("rolled-back", "aborted")
    assert asked.moves.abort("/", "q") is False


def test_a_queue_that_is_deleted_on_its_way(asked: Moved) -> None:
    asked.start()
    asked.done("queue_delete", queue_id=1)
    asked.take()
    assert not asked.topology.moves
    assert asked.answers[0]["result"] == "no-queue"


def test_refusals(asked: Moved) -> None:
    asked.done("queue_declare", name="mine", exclusive=True)
    asked.start("none")
    asked.start(shard=3)
    asked.start(version=1)
    asked.start(shard=asked.home)
    asked.start("mine", shard=(asked.topology.queue("/", "mine").shard + 1) % 3)  # type: ignore[union-attr]
    asked.incarnations[asked.target] = 0
    asked.start()
    asked.incarnations[asked.target] = 1
    asked.moves.is_full = lambda shard: shard == asked.target
    asked.start()
    asked.moves.is_full = lambda shard: False
    results = ["no-queue", "no-shard", "stale", "already-there", "refused", "refused", "refused"]
    assert [answer["result"] for answer in asked.answers] == results
    assert all(answer["pause_ms"] is None for answer in asked.answers)
    assert not asked.topology.moves
    asked.start(version=0)
    asked.start()
    assert asked.answers[-1]["result"] == "busy"
    for number in range(MOVES_MAX):
        shard = asked.done("queue_declare", name=f"q{number}")["shard"]
        asked.start(f"q{number}", shard=(shard + 1) % 3)
    assert len(asked.topology.moves) == MOVES_MAX
    assert asked.answers[-1]["result"] == "busy"


def test_without_a_free_slot(asked: Moved) -> None:
    """The node already has its maximum of queues."""
    for number in range(99):
        asked.done("queue_declare", name=f"filling {number}")
    asked.stop()
    asked.report("written", asked.home, **COPY)
    asked.report("kept", asked.target, **COPY)
    assert (asked.move.outcome, asked.shard()) == ("rolled-back", asked.home)
