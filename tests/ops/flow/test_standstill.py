"""The beginning of a standstill of full queues, by the gauges."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.flow.standstill import Standstill
from penstock.memory.gauges import Gauges

LEAST, MOST = 0.25, 1.0


@pytest.fixture
def gauges(tmp_path: Path) -> Iterator[Gauges]:
    with Gauges.create(tmp_path / "gauges", epoch=1, acceptors=1, shards=1, queues=16, pid=os.getpid()) as gauges:
        yield gauges


class Queues:
    """Queues in the gauges, by number, and their check for a standstill."""

    def __init__(self, gauges: Gauges) -> None:
        self.gauges = gauges
        self.standstill = Standstill(gauges)

    def write(self, number: int, *, acked: int = 0, unacked: int = 1, saturated: bool = True, id: int = 0) -> None:
        slot = self.gauges.shards + number
        row = self.gauges.queue_read(slot)
        if row is None or row.queue_id != (id or number):
            self.gauges.queue_open(slot, id or number, "/", f"q{number}", 1)
        self.gauges.queue_write(slot, 10, unacked, 0, 0, 0, 0, acked, 0, 0, 1, 1, saturated, 1, 5, 3, 0, 0)

    def has_begun(self, now: float) -> bool:
        return self.standstill.has_begun(now, LEAST, MOST)


@pytest.fixture
def queues(gauges: Gauges) -> Queues:
    queues = Queues(gauges)
    queues.write(1)
    queues.write(2)
    assert not queues.has_begun(1.0)
    return queues


def test_two_that_have_got_nothing_back_for_a_while(queues: Queues) -> None:
    assert not queues.has_begun(1.125)
    assert queues.has_begun(1.25)
    queues.write(1)  # another write: the queue has still had no ack
    assert queues.has_begun(1.875)


def test_those_that_have_stood_still_for_long_are_not_asked_about_again(queues: Queues) -> None:
    assert not queues.has_begun(2.0)
    queues.write(3)
    assert not queues.has_begun(2.125)
    assert queues.has_begun(2.375)


@pytest.mark.parametrize(
    "change",
    [{"acked": 1}, {"unacked": 0}, {"saturated": False}, {"id": 3}],
    ids=["it got something back", "nobody has any of it in hand", "it has room", "it is another one"],
)
def test_one_alone(queues: Queues, change: dict[str, int]) -> None:
    queues.write(2, **change)
    assert not queues.has_begun(1.25)


def test_one_that_is_gone(queues: Queues, gauges: Gauges) -> None:
    gauges.queue_close(gauges.shards + 2)
    assert not queues.has_begun(1.25)


def test_one_that_stands_still_again(queues: Queues) -> None:
    queues.write(2, acked=1)
    assert not queues.has_begun(1.125)
    assert not queues.has_begun(1.25)
    assert queues.has_begun(1.375)
