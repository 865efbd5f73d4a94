"""Tables on terminals of any width and in pipes: no name is cut."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from ops.output import UNBOUNDED, Column, fitted

LONG = "a-queue-with-a-name-that-is-longer-than-a-line-of-eighty-columns-would-ever-have-room-for"
COLUMNS = (
    Column("vhost", lambda row: "/", 1, right=False), Column("queue", lambda row: row["name"], right=False),
    Column("ready", lambda row: f"{row['ready']:,}"), Column("bytes", lambda row: "x" * 20, 3),
    Column("in/s", lambda row: "1,234", 2), Column("flow", lambda row: "[red]saturated[/red] for 12.3 s", right=False),
)  # fmt: skip


def lines(rows: Sequence[dict[str, Any]], width: int) -> list[str]:
    """Return the lines of the table on a terminal of that width."""
    out = io.StringIO()
    Console(file=out, width=width).print(fitted("Queues", COLUMNS, rows, width))
    return out.getvalue().splitlines()


def titles(rows: Sequence[dict[str, Any]], width: int) -> list[str]:
    """Return the titles of the columns on a terminal of that width."""
    return [title.strip() for title in lines(rows, width)[2].strip("┃").split("┃")]


@pytest.mark.parametrize(
    ("width", "left"),
    [
        (UNBOUNDED, ["vhost", "queue", "ready", "bytes", "in/s", "flow"]),
        (79, ["vhost", "queue", "ready", "in/s", "flow"]), (52, ["vhost", "queue", "ready", "flow"]),
        (45, ["queue", "ready", "flow"]),
    ],
)  # fmt: skip
def test_columns_that_have_no_room_are_left_out_the_least_important_first(width: int, left: list[str]) -> None:
    rows = [{"name": "orders", "ready": 12_345}]
    assert titles(rows, width) == left
    found = lines(rows, width)
    missing = len(COLUMNS) - len(left)
    assert (f"{missing} more columns" in " ".join(found)) is bool(missing)
    assert all(len(line) <= width for line in found)


@pytest.mark.parametrize("width", [UNBOUNDED, 80, 40])
def test_a_long_name_is_whole_if_need_be_on_several_lines(width: int) -> None:
    rows = [{"name": LONG, "ready": 1}, {"name": LONG + "-too", "ready": 2}]
    at = titles(rows, width).index("queue")
    cells = [line.strip("│").split("│") for line in lines(rows, width) if line.startswith("│")]
    assert "".join(cell[at].strip() for cell in cells) == LONG + LONG + "-too"


def test_who_stops_reading_makes_no_error() -> None:
    script = "from ops.output import output\nfor _ in range(20_000): output().print('a line')"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"a line\n"
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (0, b"")
