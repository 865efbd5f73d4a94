"""Clients whose connections have not begun, and their time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from acceptor.sockets.arrivals import Arrivals


class Arriver:
    """A socket that says what happens to it."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self.ended = ""

    def late(self) -> None:
        self.ended = "late"
        self.arrivals.left(self)

    def end(self) -> None:
        self.ended = "end"
        self.arrivals.left(self)


def test_the_late_are_hung_up_on_and_the_others_at_the_end() -> None:
    loop = asyncio.new_event_loop()
    now = [100.0]
    loop.time = lambda: now[0]  # type: ignore[method-assign]
    sockets: Any = SimpleNamespace(loop=loop, arriving=0)
    arrivals = Arrivals(sockets, 10.0)
    first, second, third = (Arriver(arrivals) for _ in range(3))
    arrivals.arrived(first)
    now[0] = 105.0
    arrivals.arrived(second)
    arrivals.arrived(third)
    assert sockets.arriving == 3
    assert arrivals.left(third) and not arrivals.left(third)
    now[0] = 110.0
    arrivals.tick()
    assert [each.ended for each in (first, second, third)] == ["late", "", ""]
    arrivals.close()
    assert (second.ended, sockets.arriving) == ("end", 0)
    loop.close()
