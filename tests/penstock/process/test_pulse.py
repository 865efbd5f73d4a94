"""The sign of life of a process."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.memory.gauges import Gauges
from penstock.process.pulse import Pulse, Work
from penstock.process.silence import silence
from tests.waiting import PATIENCE


@pytest.fixture
def gauges(tmp_path: Path) -> Iterator[Gauges]:
    with Gauges.create(tmp_path / "g", epoch=1, acceptors=1, shards=2, queues=1, pid=os.getpid()) as gauges:
        yield gauges


def test_it_says_what_the_process_is_at(gauges: Gauges) -> None:
    began = time.monotonic()
    pulse = Pulse(gauges, "shard", 1, 1)
    assert work_of(gauges, began) is Work.LOADING
    pulse.serve()
    assert work_of(gauges, began) is Work.SERVING
    with pulse.during(Work.DISK):
        assert work_of(gauges, began) is Work.DISK
    assert work_of(gauges, began) is Work.SERVING


def work_of(gauges: Gauges, began: float) -> Work:
    return silence(gauges, "shard", 1, 1, began, time.monotonic())[1]


def test_the_loop_beats(gauges: Gauges) -> None:
    async def scenario() -> None:
        pulse = Pulse(gauges, "shard", 1, 1)
        pulse.start(asyncio.get_running_loop())
        first = gauges.last_beat("shard", 1, 1)
        while gauges.last_beat("shard", 1, 1) == first:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def test_how_long_it_is_silent(gauges: Gauges) -> None:
    gauges.beat("shard", 0, 3, 5_000_000, Work.SERVING)
    assert silence(gauges, "shard", 0, 3, started=1.0, now=7.0) == (2.0, Work.SERVING)
    assert silence(gauges, "shard", 0, 3, started=6.0, now=7.0) == (1.0, Work.STARTING)


def test_a_life_and_the_next_one_beat_for_themselves(gauges: Gauges) -> None:
    gauges.beat("acceptor", 0, 1, 10, Work.SERVING)
    gauges.beat("acceptor", 0, 2, 20, Work.LOADING)
    assert gauges.last_beat("acceptor", 0, 1) == (10, Work.SERVING)
    assert gauges.last_beat("acceptor", 0, 2) == (20, Work.LOADING)
    with pytest.raises(ValueError, match="no kind of work: 8"):
        gauges.beat("acceptor", 0, 1, 10, 8)
