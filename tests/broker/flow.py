"""What the flow-control tests share: queues that stop their producers, and how far over the mark is still right."""

from __future__ import annotations

from typing import Any

from tests.producers import Producers
from tests.raw import Channel
from tests.waiting import PATIENCE, settled, wait_for

SIZE = 1024
STOP, RESUME = 200, 100
MARKS: dict[str, Any] = {"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": RESUME}
"""Arguments of a queue that stops its producers at 200 messages and lets them go at 100."""


def most(stop: int) -> int:
    """The deepest that a queue with this stop mark may get: a fifth over it."""
    return stop + stop // 5


def settled_depth(channel: Channel, queue: str, quiet: float = 0.5, timeout: float = PATIENCE) -> int:
    """How many messages the queue holds when that changes no more."""
    return settled(lambda: channel.depth(queue), quiet, timeout)


def wait_held(channel: Channel, queue: str, producers: Producers, timeout: float = PATIENCE) -> int:
    """Until the queue is at its mark and grows no more, although the producers have more to send; its depth then."""
    wait_for(lambda: channel.depth(queue) > 0, timeout, f"messages in {queue}")
    depth = settled_depth(channel, queue, timeout=timeout)
    assert depth < producers.written, "all of it went in: nobody was held"
    return depth
