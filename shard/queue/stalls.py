"""Queues whose contents cannot be read from the store: they deliver nothing and are tried again, the others go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from penstock.node.logs import get_logger
from shard.contents.errors import DamagedError, StoreError
from shard.queue.expiry import Alarms
from shard.queue.queue_state import QueueState

# Microseconds until a queue is tried again, and until it is said again that it still cannot be read.
RETRY = 1_000_000
REMINDER = 60_000_000

log = get_logger()


class Stall(NamedTuple):
    """Since when a queue cannot be read, when that was said last, and until when it is not tried; microseconds."""

    since: int
    told: int
    until: int


class Stalls:
    """The stalls of one shard, by queue id. Whoever is stalled asks `alarms` to be looked at again.

    What is damaged is no stall: `set_aside` writes it to a file, and the queue goes on behind it. `damaged` counts such
    messages.
    """

    def __init__(self, alarms: Alarms) -> None:
        self.alarms = alarms
        self.stalled: dict[int, Stall] = {}
        self.set_aside: Callable[[DamagedError], Path] | None = None
        self.damaged = 0

    def attempt(self, queue: QueueState, now: int, action: Callable[[QueueState], None]) -> None:
        """Do something that may read the contents of a queue, unless it is not to be tried yet."""
        stall = self.stalled.get(queue.id) if self.stalled else None
        if stall is not None and now < stall.until:
            return
        while True:
            try:
                action(queue)
                break
            except StoreError as error:
                if not isinstance(error, DamagedError) or not self.go_on_without(queue, error):
                    self.failed(queue, now, error)
                    return
        if stall is not None:
            del self.stalled[queue.id]
            log.warning("queue can be read again", queue=queue.name, vhost=queue.vhost,
                        seconds=(now - stall.since) / 1e6)  # fmt: skip

    def go_on_without(self, queue: QueueState, damaged: DamagedError) -> bool:
        """Set aside what is damaged at the head of a queue, and drop it; whether that could be done."""
        if self.set_aside is None or damaged.key is None:
            return False
        try:
            path = self.set_aside(damaged)
        except StoreError as error:
            log.error("what is damaged cannot be set aside", queue=queue.name, vhost=queue.vhost, problem=str(error))
            return False
        dropped = queue.contents.drop_damaged()
        if dropped:
            self.damaged += dropped
            log.error("messages are damaged, they are set aside", queue=queue.name, vhost=queue.vhost, messages=dropped,
                      problem=str(damaged), set_aside=str(path))  # fmt: skip
        return bool(dropped)

    def failed(self, queue: QueueState, now: int, error: StoreError) -> None:
        """The contents of a queue could not be read."""
        stall = self.stalled.get(queue.id, Stall(now, now - REMINDER, now))
        told = stall.told
        if now - told >= REMINDER:
            told = now
            log.error("queue cannot be read, it delivers nothing", queue=queue.name, vhost=queue.vhost,
                      problem=str(error), retry_seconds=RETRY / 1e6)  # fmt: skip
        self.stalled[queue.id] = Stall(stall.since, told, now + RETRY)
        self.alarms.set(queue.id, now + RETRY)

    def forget(self, id: int) -> None:
        """A queue is gone."""
        self.stalled.pop(id, None)
