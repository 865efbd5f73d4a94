"""Common parts of the flow-control tests: marks that stop producers, and the overshoot allowed."""

from __future__ import annotations

from typing import Any

from tests.producers import Producers
from tests.raw import Channel
from tests.waiting import PATIENCE, settled, wait_for

SIZE = 1024
STOP, RESUME = 200, 100
MARKS: dict[str, Any] = {"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": RESUME}
"""Arguments of a queue that stops its producers at 200 messages and releases them at 100."""


def most(stop: int) -> int:
    """Return the greatest depth allowed to a queue with this stop mark: a fifth above the mark."""
    return stop + stop // 5


def declaration_refused(channel: Channel, queue: str, arguments: dict[str, object], reason: str) -> None:
    """Check that a declaration with an invalid argument is refused; `reason` has {} for the queue."""
    channel.send("queue.declare", queue=queue, arguments=arguments)
    closed = channel.closed()
    said = reason.format(f"queue '{queue}' in vhost '/'")
    assert closed.code == 406 and closed.text.startswith(f"PRECONDITION_FAILED - invalid arg {said}")


def settled_depth(channel: Channel, queue: str, quiet: float = 0.5, timeout: float = PATIENCE) -> int:
    """Return the depth of a queue once it has stopped changing."""
    return settled(lambda: channel.depth(queue), quiet, timeout)


def wait_held(channel: Channel, queue: str, producers: Producers, timeout: float = PATIENCE) -> int:
    """Wait until all producers know that they are held and messages in flight have arrived; return the depth."""
    wait_for(lambda: producers.blocked, timeout, f"producers held by {queue}")
    depth = settled_depth(channel, queue, timeout=timeout)
    assert depth < producers.written, "all of it went in: nobody was held"
    return depth
