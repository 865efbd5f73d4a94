"""The wait for a start, which lasts as long as something loads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.child import Child, State
from ops.errors import StartError
from ops.notify import Notifier
from ops.start import REPORT_SECONDS, STILL_SECONDS, Start
from penstock.memory.gauges import Gauges
from penstock.process.pulse import Work


class Starting:
    """A node whose router loads, and whose shard waits for it."""

    def __init__(self, gauges: Gauges) -> None:
        self.gauges = gauges
        self.router, self.shard = Child("router", 0, 1), Child("shard", 0, 1)
        self.router.state = self.shard.state = State.STARTING
        self.start = Start(gauges, Notifier({}), 0.0)
        self.now = 0.0

    def beat(self, child: Child, work: Work) -> None:
        self.gauges.beat(child.role, child.index, child.incarnation, int(self.now * 1e6) + 1, work)

    def passes(self, seconds: float, loads: bool) -> bool:
        """Pass seconds in which the shard beats, and the router if it `loads`; return whether all are ready."""
        for _ in range(int(seconds)):
            self.now += 1
            self.beat(self.shard, Work.SERVING)
            if loads:
                self.beat(self.router, Work.LOADING)
            if self.start.is_over([self.router, self.shard], self.now):
                return True
        return False


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[Starting]:
    with Gauges.create(tmp_path / "g", epoch=1, acceptors=1, shards=1, queues=1, pid=os.getpid()) as gauges:
        yield Starting(gauges)


def test_it_may_take_long_while_something_loads(starting: Starting) -> None:
    assert not starting.passes(10 * STILL_SECONDS, loads=True)
    starting.router.ready()
    assert not starting.passes(1, loads=False)
    starting.shard.ready()
    assert starting.passes(1, loads=False)


def test_it_is_given_up_when_nothing_moves(starting: Starting) -> None:
    """Processes that wait for others beat as well."""
    starting.passes(100, loads=True)
    assert not starting.passes(STILL_SECONDS, loads=False)
    with pytest.raises(StartError, match="not ready after 161 s, the last 60 without progress: router 0, shard 0"):
        starting.passes(1, loads=False)


def test_one_that_gets_ready_is_a_move(starting: Starting) -> None:
    starting.passes(STILL_SECONDS - 1, loads=False)
    starting.router.ready()
    assert not starting.passes(STILL_SECONDS, loads=False)
    with pytest.raises(StartError, match="the last 60 without progress: shard 0"):
        starting.passes(2, loads=False)


def test_a_console_is_not_waited_for(starting: Starting) -> None:
    starting.router.ready()
    starting.shard.ready()
    assert starting.start.is_over([starting.router, starting.shard, Child("console", 0, 1)], 1.0)


def test_a_balancer_is_not_waited_for(starting: Starting) -> None:
    starting.router.ready()
    starting.shard.ready()
    assert starting.start.is_over([starting.router, starting.shard, Child("balancer", 0, 1)], 1.0)


def test_the_next_look(starting: Starting) -> None:
    assert starting.start.deadline == REPORT_SECONDS
    starting.passes(REPORT_SECONDS, loads=False)
    assert starting.start.deadline == 2 * REPORT_SECONDS
