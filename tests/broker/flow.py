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


def declaration_refused(channel: Channel, queue: str, arguments: dict[str, object], reason: str) -> None:
    """Declare a queue with an argument that is none; `reason` has {} for what says which queue it is."""
    channel.send("queue.declare", queue=queue, arguments=arguments)
    closed = channel.closed()
    said = reason.format(f"queue '{queue}' in vhost '/'")
    assert closed.code == 406 and closed.text.startswith(f"PRECONDITION_FAILED - invalid arg {said}")


def settled_depth(channel: Channel, queue: str, quiet: float = 0.5, timeout: float = PATIENCE) -> int:
    """How many messages the queue holds when that changes no more."""
    return settled(lambda: channel.depth(queue), quiet, timeout)


def wait_held(channel: Channel, queue: str, producers: Producers, timeout: float = PATIENCE) -> int:
    """Until all producers have been told that they are held, and what was under way has arrived; the depth then."""
    wait_for(lambda: producers.blocked, timeout, f"producers held by {queue}")
    depth = settled_depth(channel, queue, timeout=timeout)
    assert depth < producers.written, "all of it went in: nobody was held"
    return depth
