"""A plan applied to a node: its moves are made, recorded and reported; a queue other than the planned one stays.

The choice of each step is in test_applying.py, the loss of processes in tests/broker/test_rebalance.py.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ops.errors import CommandError
from ops.rebalance.applying import Ended, Limits, Result, Start
from ops.rebalance.node import RunningNode
from ops.rebalance.plan import Move, Plan
from ops.rebalance.records import Records, summary
from ops.rebalance.running import Report, Run, describe_move
from penstock.node import clock
from tests.ops.served import ServedNode, served, write

UNLIMITED = Limits(loop_lag_ms=0, stopped_percent=0, fill_percent=0)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    with served(tmp_path / "data") as node:
        yield node


def plan_of(node: ServedNode, moves: list[Move], lasts: float = 60.0) -> Plan:
    now = clock.now()
    return Plan("20260101-000000-00000000", now, now + lasts, node.placement_version, {}, {}, {}, tuple(moves))


def moves_off(node: ServedNode, *names: str, **fields: int) -> list[Move]:
    """Declare queues on shard 0; return the moves that take them to shard 1."""
    return [Move("/", name, node.declare(name, 0, **fields), 0, 1) for name in names]


def run_of(node: ServedNode, plan: Plan, report: Report = lambda line: None) -> Run:
    return Run(RunningNode(node.data), Records(node.data), plan, UNLIMITED, report)


def results(node: ServedNode, plan: Plan) -> list[tuple[str, str]]:
    """Return result and reason of each move, from the records."""
    records = Records(node.data).of_plan(plan.id)
    return [(each["result"], each["reason"]) for each in records if each["event"] == "move"]


def test_all_moves_are_made_recorded_and_reported(node: ServedNode) -> None:
    plan = plan_of(node, moves_off(node, "a", "b"))
    lines: list[str] = []
    assert run_of(node, plan, lines.append).run() == Ended("applied")
    assert node.homes() == {"a": 1, "b": 1}
    found = summary(plan.id, Records(node.data).of_plan(plan.id), applying=False)
    assert (found["state"], found["moved"], found["moves"]) == ("applied", 2, 2)
    assert [line.split(", paused")[0] for line in lines] == [
        "1/2 queue 'a' in '/', shard 0 to 1: moved",
        "2/2 queue 'b' in '/', shard 0 to 1: moved",
    ]
    assert node.command("rebalance_lease") is None


def test_an_expired_plan_takes_no_lease(node: ServedNode) -> None:
    plan = plan_of(node, moves_off(node, "a"), lasts=0.0)
    with pytest.raises(CommandError, match=f"^plan {plan.id} has expired: plan again$"):
        run_of(node, plan)
    assert "rebalance_hold" not in node.commands


def test_a_plan_for_another_placement_is_refused_and_the_lease_released(node: ServedNode) -> None:
    plan = replace(plan_of(node, moves_off(node, "a")), placement_version=99)
    with pytest.raises(CommandError) as refused:
        run_of(node, plan)
    present = node.placement_version
    assert str(refused.value) == f"the placement is of version {present}, plan {plan.id} is for 99: plan again"
    assert node.command("rebalance_lease") is None
    assert Records(node.data).of_plan(plan.id) == []


def test_two_plans_are_not_applied_at_a_time(node: ServedNode) -> None:
    node.command("rebalance_hold", plan="other", holder="ann", seconds=60, limits={}, progress={})
    with pytest.raises(CommandError, match=r"^plan other is being applied by ann, whose lease expires in \d+ s$"):
        run_of(node, plan_of(node, moves_off(node, "a")))


def test_queues_that_are_not_the_planned_ones_are_passed_over(node: ServedNode) -> None:
    (kept,) = moves_off(node, "kept")
    (other,) = moves_off(node, "other")
    plan = plan_of(node, [Move("/", "gone", 77, 0, 1), Move("/", "other", other.queue_id + 50, 0, 1), kept])
    assert run_of(node, plan).run() == Ended("applied")
    assert results(node, plan) == [
        ("no-queue", "it has been deleted"),
        ("replaced", "it has been deleted and declared again"),
        ("moved", ""),
    ]
    assert node.homes() == {"kept": 1, "other": 0}


def test_a_shard_without_room_for_the_queue_ends_the_plan_before_the_move(node: ServedNode) -> None:
    plan = plan_of(node, moves_off(node, "a", "b", whole_bytes=601))
    write(node.gauges, 1, ready_bytes=400, stop_bytes=1000, resume_bytes=900)
    why = "shard 1 has no memory for its 601 bytes"
    assert run_of(node, plan).run() == Ended("stopped", f"queue 'a': refused, {why}")
    assert results(node, plan) == [("refused", why)]
    assert "queue_move" not in node.commands
    write(node.gauges, 1, ready_bytes=399, stop_bytes=1000, resume_bytes=900)
    assert run_of(node, plan).run().state == "applied"


def test_it_goes_on_after_the_moves_of_an_earlier_attempt(node: ServedNode) -> None:
    """The node completed the second move after the attempt had ended: only its start is on record."""
    plan = plan_of(node, moves_off(node, "a", "b", "c"))
    records, version = Records(node.data), plan.placement_version
    for number, name in enumerate(("a", "b")):
        step = Start(number, plan.moves[number], version + number)
        records.start(plan, step, 0)
        node.command("queue_move", vhost="/", name=name, shard=1, placement_version=None, plan=plan.id)
        if number == 0:
            records.move(plan, step, Result("moved", placement_version=version + 1))
    run = run_of(node, plan)
    assert (run.applying.done, run.applying.placement_version) == ({0, 1}, version + 2)
    assert run.run() == Ended("applied")
    assert node.commands.count("queue_move") == 3


def test_it_goes_on_after_several_moves_that_the_node_has_completed_or_not(node: ServedNode) -> None:
    plan = plan_of(node, moves_off(node, "a", "b", "c", "d"))
    records, version = Records(node.data), plan.placement_version
    for number in range(4):
        records.start(plan, Start(number, plan.moves[number], None), 0)
    for name in ("c", "a"):
        node.command("queue_move", vhost="/", name=name, shard=1, placement_version=None, plan=plan.id)
    records.move(plan, Start(2, plan.moves[2], None), Result("moved", placement_version=version + 1))
    run = run_of(node, plan)
    assert (run.applying.done, run.applying.placement_version) == ({0, 2}, version + 2)
    assert run.run() == Ended("applied")
    assert node.homes() == dict.fromkeys("abcd", 1)


def test_several_moves_at_a_time(node: ServedNode) -> None:
    names = [f"q{number}" for number in range(12)]
    plan = plan_of(node, moves_off(node, *names))
    run = Run(RunningNode(node.data), Records(node.data), plan, replace(UNLIMITED, moves=5), lambda line: None)
    assert run.run() == Ended("applied")
    assert node.homes() == dict.fromkeys(names, 1)
    events = [each["event"] for each in Records(node.data).of_plan(plan.id)]
    assert events.count("start") == events.count("move")  # one that the node has given up is made again
    assert [result for result, _ in results(node, plan)].count("moved") == 12
    again = run_of(node, plan)
    assert (again.applying.done, again.applying.placement_version) == (set(range(12)), plan.placement_version + 12)


def test_a_signal_ends_it_after_the_present_move(node: ServedNode) -> None:
    plan = plan_of(node, moves_off(node, "a", "b"))
    before = signal.getsignal(signal.SIGTERM)
    ended = run_of(node, plan, lambda line: signal.raise_signal(signal.SIGTERM)).run()
    assert ended == Ended("aborted")
    assert node.homes() == {"a": 1, "b": 0}
    assert signal.getsignal(signal.SIGTERM) is before
    assert node.command("rebalance_lease") is None


@pytest.mark.parametrize(
    ("facts", "end"),
    [
        ({"result": "moved", "pause_ms": 3.25, "messages": 8}, "moved, paused for 3.2 ms, 8 messages"),
        ({"result": "moved", "reason": "no answer"}, "moved (no answer)"),
        ({"result": "refused", "reason": "no room", "pause_ms": 1.0}, "refused (no room)"),
        ({"result": "already-there"}, "already-there"),
    ],
)
def test_lines_of_moves(facts: dict[str, Any], end: str) -> None:
    step = Start(1, Move("v", "q", 5, 2, 3), 7)
    assert describe_move(step, 4, Result(**facts)) == f"2/4 queue 'q' in 'v', shard 2 to 3: {end}"


def test_automatic_rebalancing_ends_a_run_by_its_objection(node: ServedNode) -> None:
    plan = plan_of(node, moves_off(node, "a", "b", whole_bytes=7))
    asked: list[tuple[int, int]] = []

    def objection(move: tuple[int, int] | None = None) -> str:
        asked.extend([move] if move else [])
        return "enough" if len(asked) > 1 else ""

    run = Run(RunningNode(node.data), Records(node.data), plan, UNLIMITED, lambda line: None, objection)
    assert run.run() == Ended("withdrawn", "enough")
    assert node.homes() == {"a": 1, "b": 0}
    assert asked == [(0, 7), (1, 7)]
    begun, *_ = Records(node.data).of_plan(plan.id)
    assert begun["by"] == "automatic" and begun["holder"].startswith("automatic@")
    assert node.command("rebalance_lease") is None


def test_automatic_rebalancing_moves_nothing_without_records(node: ServedNode) -> None:
    plan = plan_of(node, moves_off(node, "a"))
    unlimited, silent = UNLIMITED, lambda line: None
    run = Run(RunningNode(node.data), Records(node.data), plan, unlimited, silent, lambda move=None: "")
    (node.data / "rebalance").touch()  # no directory, and no records in it
    assert run.run() == Ended("stopped", "its records cannot be written")
    assert node.homes() == {"a": 0}
