"""The spans of all processes of a node, which keep their own (`penstock.tracing.spans`), and the traces that they make.

A trace, as the API shows it:

    {trace (id, 32 hexadecimal digits), begin (seconds since 1970), milliseconds, spans: [span], by `begin`}

    span: {span, parent | null (ids, 16 digits), name, process, begin (seconds since 1970), milliseconds, attributes}
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from penstock.control.asking import ask
from penstock.memory.gauges import READY
from penstock.node import clock

if TYPE_CHECKING:
    from penstock.memory.gauges import Gauges
    from penstock.node.node import Node
    from penstock.node.runtime_paths import Role

Facts = dict[str, Any]
Process = tuple["Role", int, int]
"""Role, index and incarnation."""


class SpanReader:
    """Reads each span of a node once. `lost` is the number of those that were gone before they could be read."""

    def __init__(self, node: Node, gauges: Gauges) -> None:
        self.lost = 0
        self._node = node
        self._gauges = gauges
        self._last: dict[Process, int] = {}

    async def read(self) -> list[Facts]:
        """Return new spans, with times in µs since 1970. OSError if a process does not answer."""
        serving = self._serving()
        self._last = {process: self._last.get(process, 0) for process in serving}
        return [span for found in await asyncio.gather(*map(self._read_from, serving)) for span in found]

    async def _read_from(self, process: Process) -> list[Facts]:
        found = await ask(self._node.control_of(*process), "spans", {"after": self._last[process]})
        self._last[process] = found["last"]
        self.lost += found["lost"]
        ahead = clock.wall_ahead_us()
        return [{**span, "begin": span["begin"] + ahead, "end": span["end"] + ahead} for span in found["spans"]]

    def _serving(self) -> list[Process]:
        roles: tuple[tuple[Role, int], ...] = (("acceptor", self._gauges.acceptors), ("shard", self._gauges.shards))
        found = []
        for role, index in ((role, index) for role, most in roles for index in range(most)):
            place = self._gauges.process_read(role, index)
            if place.state == READY:
                found.append((role, index, place.incarnation))
        return found


def traces(spans: Iterable[Facts]) -> list[Facts]:
    """Return the traces that spans make, the last to begin first."""
    by_trace: dict[str, list[Facts]] = {}
    for span in sorted(spans, key=itemgetter("begin")):
        by_trace.setdefault(span["trace"], []).append(span)
    found = [_trace(id, members) for id, members in by_trace.items()]
    return sorted(found, key=itemgetter("begin"), reverse=True)


def _trace(id: str, spans: list[Facts]) -> Facts:
    return {
        "trace": id,
        **_lasted(spans[0]["begin"], max(span["end"] for span in spans)),
        "spans": [*map(_shown, spans)],
    }


def _shown(span: Facts) -> Facts:
    named = {name: span[name] for name in ("span", "parent", "name", "process")}
    return {**named, **_lasted(span["begin"], span["end"]), "attributes": span["attributes"]}


def _lasted(begin_us: int, end_us: int) -> Facts:
    return {"begin": begin_us / 1e6, "milliseconds": (end_us - begin_us) / 1e3}
