"""Flow episodes in plain Python: a common first step of several jobs' twins."""

from __future__ import annotations

from collections import defaultdict

from pipeline.jobs import episodes
from tests.pipeline.tables import Row

Place = tuple[str, str, str]
"""Node, vhost and queue."""


def plain_episodes(flow: list[Row], until: int) -> list[Row]:
    """Return the episodes, as `pipeline.jobs.episodes` does."""
    sessions = defaultdict(list)
    for row in flow:
        if row["action"] in ("stop", "resume"):
            sessions[row["node"], row["epoch"], row["writer"], row["connection"], row["channel"]].append(row)
    found = []
    for rows in sessions.values():
        rows.sort(key=lambda row: row["seq"])
        for row, following in zip(rows, [*rows[1:], None], strict=True):
            if row["action"] == "resume":
                found.append({**row, "started": row["ts"] - row["stopped_ms"] * 1000, "ended": row["ts"]})
            elif following is None or following["action"] == "stop":
                found.append(_alone(row, following, flow, until))
    names = [column.name for column in episodes.TABLE.columns]
    return [{name: row[name] for name in names} for row in found]


def _alone(stop: Row, following: Row | None, flow: list[Row], until: int) -> Row:
    """Return the episode of a stop without a resume."""
    ended = following["ts"] if following else None
    if ended is None:
        firsts: dict[tuple[int, str], int] = {}
        for row in flow:
            if (row["node"], row["acceptor"]) == (stop["node"], stop["acceptor"]):
                incarnation = row["epoch"], row["writer"]
                firsts[incarnation] = min(firsts.get(incarnation, row["ts"]), row["ts"])
        ended = min((first for first in firsts.values() if first > stop["ts"]), default=None)
    stopped = ((until if ended is None else ended) - stop["ts"]) // 1000
    return {
        **stop,
        "started": stop["ts"],
        "ended": ended,
        "stopped_ms": stopped,
        "outcome": "open" if ended is None else "lost",
    }


def named_queue(row: Row) -> str:
    """Return the queue of a row, or the cause in parentheses."""
    return str(row["queue"] if row["queue"] is not None else f"({row['cause']})")


def by_place(rows: list[Row]) -> dict[Place, list[Row]]:
    """Return the rows of each queue, in order of time."""
    found: dict[Place, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["ts"], row["seq"])):
        found[row["node"], row["vhost"], row["queue"]].append(row)
    return found


def backlog(row: Row) -> int:
    """Return ready and unacked messages."""
    return int(row["ready"] + row["unacked"])


def nbytes(row: Row) -> int:
    """Return the bytes of whole messages; of bodies if the row lacks these."""
    whole = row["whole_bytes"]
    return int(row["ready_bytes"] + row["unacked_bytes"] if whole is None else whole)
