"""Present publish rates of channels, from two readings of the counts that acceptors keep on request."""

from __future__ import annotations

from typing import Any

Facts = dict[str, Any]


def rates_between(earlier: Facts, now: Facts) -> list[Facts]:
    """Return the publish rates between two answers of one acceptor (`acceptor.routing.counting`).

    An acceptor that was restarted in between has counted since its restart.
    """
    goes_on = now["seconds"] > earlier["seconds"]
    known = {_route_key(each): each for each in earlier["publishes"]} if goes_on else {}
    seconds = now["seconds"] - earlier["seconds"] if goes_on else now["seconds"]
    found = []
    for each in now["publishes"] if seconds > 0 else ():
        before = known.get(_route_key(each), {"messages": 0, "bytes": 0})
        rates = {name: (each[name] - before[name]) / seconds for name in ("messages", "bytes")}
        if rates["messages"]:
            found.append({**each, **rates})
    return found


def _route_key(row: Facts) -> tuple[object, ...]:
    ids = (tuple(row[name]) for name in ("exchanges", "queues", "powerless"))
    return row["connection"], row["channel"], row["routing_key"], *ids
