"""The timer of a shard's turns: it runs at the earliest time asked for."""

from __future__ import annotations

from penstock.node.clock import now_us
from shard.contents.queue_cy import NEVER
from shard.wake_timer import WakeTimer
from tests.shard.store.test_flushes import Loop

HOUR = 3_600_000_000


def test_it_wakes_once_at_the_earliest_time_and_may_be_asked_again() -> None:
    loop, woken = Loop(), list[float]()
    timer = WakeTimer(loop, lambda: woken.append(loop.clock))
    timer.ask(NEVER)
    timer.ask(now_us() + HOUR)
    loop.turn()
    assert not woken
    timer.ask(0)
    timer.ask(now_us() + HOUR)
    loop.turn()
    assert woken == [100.0]
    loop.clock += 2 * HOUR / 1e6
    loop.turn()
    assert len(woken) == 1, "the later time was replaced"
    timer.ask(0)
    loop.turn()
    assert len(woken) == 2
    loop.close()
