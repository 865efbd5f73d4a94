"""Queues whose contents cannot be read from the store: they deliver nothing and are retried, while the others go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from penstock.node.logs import get_logger
from shard.contents.errors import DamagedError, StoreError
from shard.queue.expiry import Alarms
from shard.queue.queue_state import QueueState

# Microseconds until a queue is retried, and until the log repeats that it cannot be read.
RETRY = 1_000_000
REMINDER = 60_000_000

log = get_logger()


class Stall(NamedTuple):
    """When a queue became unreadable, when that was last logged, and until when it is not retried; microseconds."""

    since: int
    logged: int
    until: int


class Stalls:
    """The stalls of one shard, by queue id. A stalled queue asks `alarms` for its retry.

    Damaged messages are no stall: `set_aside` writes them to a file, and the queue goes on behind them. `damaged`
    counts them.
    """

    def __init__(self, alarms: Alarms) -> None:
        self.alarms = alarms
        self.stalled: dict[int, Stall] = {}
        self.set_aside: Callable[[DamagedError], Path] | None = None
        self.damaged = 0

    def attempt(self, queue: QueueState, now: int, action: Callable[[QueueState], None]) -> None:
        """Run an action that may read the contents of a queue, unless its retry is not due yet."""
        stall = self.stalled.get(queue.id) if self.stalled else None
        if stall is not None and now < stall.until:
            return
        while True:
            try:
                action(queue)
                break
            except StoreError as error:
                if not self.go_on_without(queue, error, queue.contents.drop_damaged):
                    self.failed(queue, now, error)
                    return
        if stall is not None:
            del self.stalled[queue.id]
            log.warning("queue can be read again", queue=queue.name, vhost=queue.vhost,
                        seconds=(now - stall.since) / 1e6)  # fmt: skip

    def go_on_without(self, queue: QueueState, error: StoreError, drop: Callable[[], int]) -> bool:
        """If messages are damaged, set them aside and drop them; return whether any were dropped.

        `drop` drops those that the reader wants and returns how many.
        """
        if not isinstance(error, DamagedError) or self.set_aside is None or error.key is None:
            return False
        try:
            path = self.set_aside(error)
        except StoreError as problem:
            log.error("damaged messages cannot be set aside", queue=queue.name, vhost=queue.vhost, problem=str(problem))
            return False
        dropped = drop()
        if dropped:
            self.damaged += dropped
            log.error("messages are damaged, they are set aside", queue=queue.name, vhost=queue.vhost, messages=dropped,
                      problem=str(error), set_aside=str(path))  # fmt: skip
        return bool(dropped)

    def failed(self, queue: QueueState, now: int, error: StoreError) -> None:
        """Record that the contents of a queue could not be read, and set its retry."""
        stall = self.stalled.get(queue.id, Stall(now, now - REMINDER, now))
        logged = stall.logged
        if now - logged >= REMINDER:
            logged = now
            log.error("queue cannot be read, it delivers nothing", queue=queue.name, vhost=queue.vhost,
                      problem=str(error), retry_seconds=RETRY / 1e6)  # fmt: skip
        self.stalled[queue.id] = Stall(stall.since, logged, now + RETRY)
        self.alarms.set(queue.id, now + RETRY)

    def forget(self, id: int) -> None:
        """A queue is gone: forget its stall."""
        self.stalled.pop(id, None)
