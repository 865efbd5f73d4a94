"""How long publishers were held, by user class: the rows of the table in the console, UI, HTML and CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass

from load.counters import Tally

TOTAL = "all"


@dataclass(frozen=True, slots=True)
class Held:
    """One row: stops that the broker announced, counted when they end, and users' waiting time, counted while they
    wait.
    """

    user: str
    published: int
    flow_stops: int
    flow_seconds: float
    blocked: int
    blocked_seconds: float
    longest_seconds: float
    stopped_seconds: float
    confirms_seconds: float
    writing_seconds: float


TITLES = {
    "user": "Publishers",
    "published": "Published",
    "flow_stops": "Flow stops",
    "flow_seconds": "s of them",
    "blocked": "Blocked",
    "blocked_seconds": "s of them",
    "longest_seconds": "Longest (s)",
    "stopped_seconds": "Held: obeyed (s)",
    "confirms_seconds": "Held: confirms (s)",
    "writing_seconds": "Held: socket (s)",
}
"""Titles of the columns in order, by field of `Held`."""


def rows(tally: Tally) -> Iterator[Held]:
    """Yield one row per publisher class, and a total if there are several. Seconds are summed over users."""
    users = sorted(set(tally.published) | {stop.user for stop in tally.stops} | set(tally.waits))
    for user in users:
        yield row(tally, user, [user])
    if len(users) > 1:
        yield row(tally, TOTAL, users)


def row(tally: Tally, name: str, users: Sequence[str]) -> Held:
    """One row over the given user classes."""
    stops = [stop for stop in tally.stops if stop.user in users]
    flow = [stop.seconds for stop in stops if stop.method == "FLOW"]
    blocked = [stop.seconds for stop in stops if stop.method == "BLOCKED"]
    waits = [tally.waits[user] for user in users if user in tally.waits]
    return Held(
        user=name,
        published=sum(tally.published[user].total() for user in users if user in tally.published),
        flow_stops=len(flow),
        flow_seconds=sum(flow, 0.0),
        blocked=len(blocked),
        blocked_seconds=sum(blocked, 0.0),
        longest_seconds=max((stop.seconds for stop in stops), default=0.0),
        stopped_seconds=sum((wait["stopped"] for wait in waits), 0.0),
        confirms_seconds=sum((wait["confirms"] for wait in waits), 0.0),
        writing_seconds=sum((wait["writing"] for wait in waits), 0.0),
    )


def cells(row: Held) -> list[str]:
    """Format a row as text, with one decimal for seconds."""
    return [text(value) for value in astuple(row)]


def text(value: str | float) -> str:
    """Format one cell."""
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def table(rows: Sequence[Held]) -> list[str]:
    """Format the rows as lines for a terminal: names aligned left, numbers right."""
    lines = [list(TITLES.values()), *(cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(TITLES))]
    return [
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
