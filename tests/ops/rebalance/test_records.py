"""The records of plans, and the history read from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ops.errors import CommandError
from ops.rebalance.applying import Ended, Result, Start
from ops.rebalance.costs import PAUSE_MS
from ops.rebalance.records import PLANS_KEPT, Records, summary
from tests.ops.rebalance.test_applying import plan


def test_plans_are_found_by_id_and_by_file(tmp_path: Path) -> None:
    records, made = Records(tmp_path), plan()
    path = records.keep(made)
    assert records.plan(made.id) == records.plan(str(path)) == made
    for name in ("20260101-000000-ffffffff", "../../etc/passwd", ""):
        with pytest.raises(CommandError):
            records.plan(name)


def test_the_newest_plans_are_kept(tmp_path: Path) -> None:
    records = Records(tmp_path)
    for number in range(PLANS_KEPT + 3):
        records.keep(replace(plan(), id=f"20260101-000000-{number:08x}"))
    kept = sorted(path.stem for path in (tmp_path / "rebalance" / "plans").iterdir())
    assert kept == [f"20260101-000000-{number:08x}" for number in range(3, PLANS_KEPT + 3)]


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "rebalance").touch()
    with pytest.raises(CommandError, match="cannot keep the plan in"):
        Records(tmp_path).keep(plan())


def test_what_became_of_a_plan(tmp_path: Path) -> None:
    records, made = Records(tmp_path), plan()
    assert records.by_plan() == {}
    records.begun(made, "automatic", "ann@there:1", 7)
    assert records.expected_pause() == PAUSE_MS
    for number, result in enumerate((Result("moved", "", 12.5, 3, 30, 8), Result("refused", "no room"))):
        step = Start(number, made.moves[number], 7)
        records.start(made, step, 30)
        records.move(made, step, result)
    assert [each["bytes"] for each in records.of_plan(made.id) if each["event"] == "start"] == [30, 30]
    interrupted = summary(made.id, records.of_plan(made.id), applying=False)
    assert interrupted["by"] == "automatic"
    assert (interrupted["state"], interrupted["ended"]) == ("interrupted", None)
    assert summary(made.id, records.of_plan(made.id), applying=True)["state"] == "applying"
    records.ended(made.id, Ended("stopped", "no room"))
    found = summary(made.id, Records(tmp_path).by_plan()[made.id], applying=False)
    assert found["results"] == {"moved": 1, "refused": 1}
    assert (found["state"], found["reason"], found["moved"], found["moves"]) == ("stopped", "no room", 1, 3)
    assert (found["messages"], found["bytes"], found["longest_pause_ms"]) == (3, 30, 12.5)


def test_a_plan_that_was_only_kept(tmp_path: Path) -> None:
    records, made = Records(tmp_path), plan()
    records.kept(made, expires=60.0)
    found = summary(made.id, records.of_plan(made.id), applying=False)
    assert (found["state"], found["by"], found["moves"], found["moved"]) == ("kept", None, 3, 0)
    records.begun(made, "operator", "ann@there:1", 7)
    assert summary(made.id, records.of_plan(made.id), applying=False)["state"] == "interrupted"


def test_moves_of_all_plans_tell_what_moves_take(tmp_path: Path) -> None:
    records, made = Records(tmp_path), plan()
    for number in range(6):
        step = Start(number, made.moves[0], 7)
        records.move(
            replace(made, id=f"20260101-000000-{number:08x}"), step, Result("moved", "", 30.0 + number, 0, 0, 8)
        )
    assert Records(tmp_path).expected_pause() == 32.5
