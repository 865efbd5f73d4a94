"""Plans, their history and the lease as text."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from ops.output import fitted
from ops.rebalance.plan import Move, Plan
from ops.rebalance.show import (
    DONE_COLUMNS,
    MOVE_COLUMNS,
    progress_bar,
    readable,
    show_automatic,
    show_history,
    show_lease,
    show_moves,
    show_plan,
)  # fmt: skip

MOVE = Move("/", "a [red]", 1, 0, 1, "load", messages=1200, nbytes=3400, rate=56.7, pause_ms=12.4)
NOW = 1_800_000_000.0


def score(most: float, first: float, second: float) -> dict[str, Any]:
    return {"max_over_mean": most, "shards": {"0": first, "1": second}}


def scores(most: float, first: float, second: float) -> dict[str, Any]:
    """Return scores in which only the load is as given."""
    return {"load": score(most, first, second), **dict.fromkeys(("held", "bytes", "queues"), score(1.0, 0.0, 0.0))}


PLAN = Plan(
    "20270115-080000-0123abcd", NOW, NOW + 90, 7, {"source": "gauges, 30 s", "queues": 2, "coverage": 0.5},
    scores(1.5, 1500.0, 500.0), scores(1.0, 1000.0, 1000.0), (MOVE, replace(MOVE, queue="n\udcff", nbytes=600)),
    ("not moved, pinned: [bold]",),
)  # fmt: skip


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of the rows of all tables."""
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line.startswith("│")]


def test_a_plan_is_shown_with_its_scores_moves_and_notes(capsys: pytest.CaptureFixture[str]) -> None:
    show_plan(PLAN, NOW)
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert lines[0] == f"plan {PLAN.id} (valid for 90 s), for placement version 7"
    assert lines[1] == "from gauges, 30 s: 2 queues, 50% of their samples"
    assert lines[-2:] == ["2 moves, which copy 2,400 messages, 4,000 bytes", "not moved, pinned: [bold]"]
    assert rows_of(text) == [
        ["0", "1,500 → 1,000", "0.00", "0", "0"],
        ["1", "500 → 1,000", "0.00", "0", "0"],
        ["most/mean", "1.50 → 1.00", "1.00 → 1.00", "1.00 → 1.00", "1.00 → 1.00"],
        ["1", "/", "a [red]", "0 → 1", "load", "57", "1,200", "3,400", "12 ms"],
        ["2", "/", "n\ufffd", "0 → 1", "load", "57", "1,200", "600", "12 ms"],
    ]


def test_a_plan_without_moves_an_expired_one_and_one_that_undoes_another(capsys: pytest.CaptureFixture[str]) -> None:
    show_plan(replace(PLAN, moves=(), undoes="20270115-070000-0123abcd"), NOW + 90)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"plan {PLAN.id} (expired), undoes 20270115-070000-0123abcd, for placement version 7"
    assert lines[-2] == "no moves"


def test_history_has_a_row_for_each_plan(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {
        "plan": "p",
        "by": "automatic",
        "begun": 0.0,
        "state": "stopped",
        "moved": 1,
        "moves": 3,
        "messages": 4000,
        "bytes": 50_000,
    }
    show_history([{**facts, "longest_pause_ms": 12.34, "reason": "[red] \udcff"}, {**facts, "by": None, "begun": None,
                 "longest_pause_ms": 0.0, "reason": ""}])  # fmt: skip
    one, other = rows_of(capsys.readouterr().out)
    assert one == [
        "p",
        "automatic",
        "1970-01-01 00:00:00+00:00",
        "stopped",
        "1 of 3",
        "4,000",
        "50,000",
        "12.3 ms",
        "[red] \ufffd",
    ]
    assert (other[1], other[2], other[-2:]) == ("-", "-", ["0.0 ms", ""])


def test_moves_have_a_row_each_and_one_that_stopped_nothing_has_no_pause(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"at": 60.0, "number": 0, "vhost": "/", "queue": "q[red]", "from": 0, "to": 1, "messages": 4000, "bytes": 5}
    show_moves([{**facts, "result": "moved", "pause_ms": 1234.56, "reason": ""},
                {**facts, "number": 1, "result": "refused", "pause_ms": None, "reason": "no room"}])  # fmt: skip
    assert rows_of(capsys.readouterr().out) == [
        ["1970-01-01 00:01:00+00:00", "1", "/", "q[red]", "0 → 1", "moved", "1,234.6 ms", "4,000", "5", ""],
        ["1970-01-01 00:01:00+00:00", "2", "/", "q[red]", "0 → 1", "refused", "-", "4,000", "5", "no room"],
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_moves_on_a_narrow_terminal_have_whole_names(width: int) -> None:
    names = [f"events.region.eu-central-{number}.warehouse.outbound" for number in (1, 2)]
    records = [
        {
            "at": 60.0,
            "number": number,
            "vhost": "/",
            "queue": name,
            "from": 0,
            "to": 1,
            "messages": 4_000_000,
            "bytes": 5,
            "result": "moved",
            "pause_ms": 1234.56,
            "reason": "",
        }
        for number, name in enumerate(names)
    ]
    planned = [(number, replace(MOVE, queue=name, nbytes=34_567_890)) for number, name in enumerate(names, 1)]
    for columns, rows in ((MOVE_COLUMNS, planned), (DONE_COLUMNS, records)):
        text = io.StringIO()
        Console(file=text, width=width).print(fitted("", columns, rows, width))
        lines = rows_of(text.getvalue())
        assert all(len(line) <= width for line in text.getvalue().splitlines())
        at = next(at for at, cell in enumerate(lines[0]) if cell.startswith("events"))
        assert "".join(cells[at] for cells in lines) == "".join(names)


def test_the_lease_says_how_far_it_is_and_what_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    progress = {"done": 2, "moves": 5, "messages": 1234, "waits_for": "the rate limits"}
    limits = {"moves": 1, "loop_lag_ms": 250.0}
    lease = {"plan": "p", "holder": "ann@[there]:1", "since": time.time() - 4 * 3600, "progress": progress,
             "limits": limits}  # fmt: skip
    show_lease(lease)
    assert capsys.readouterr().out.splitlines() == [
        "plan p is being applied by ann@[there]:1 for 4 h: 2 of 5 moves, 1,234 messages",
        "waits: the rate limits",
        "limits: moves 1, loop_lag_ms 250",
    ]
    show_lease({**lease, "progress": {**progress, "waits_for": ""}})
    assert "waits" not in capsys.readouterr().out


def test_away_from_a_terminal_no_progress_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(30.0, "watching") as on_progress:
        on_progress(0.5)
    assert capsys.readouterr() == ("", "")


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert readable("n\udcffé") == "n\ufffdé"


def test_automatic_rebalancing_is_shown_with_its_reason_and_its_last_plan(capsys: pytest.CaptureFixture[str]) -> None:
    show_automatic({"mode": "off", "stage": "off", "why": "", "until": None, "last": None})
    last = {"plan": "p", "state": "kept", "moved": 0, "moves": 3}
    show_automatic({"mode": "dry-run", "stage": "idle", "why": "ann [red] has paused it", "until": 60.0, "last": last})
    show_automatic({"mode": "on", "stage": "watching", "why": "the next window", "until": None, "last": None})
    assert capsys.readouterr().out.splitlines() == [
        "automatic rebalancing is off",
        "automatic rebalancing (dry-run) is idle: ann [red] has paused it, until 1970-01-01 00:01:00+00:00",
        "its last plan is p: kept, 0 of 3",
        "automatic rebalancing (on) is watching: the next window",
    ]
