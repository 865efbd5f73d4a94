"""Checks the node for those who follow its flow control, as long as there are any.

idle ──subscribe──▶ checking, every CHECK_SECONDS ──(the last one leaves)──▶ idle
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from console.broker import Broker, Facts
from console.flow.chain import queues_of
from console.flow.feed import Event, Feed
from penstock.control.control import Refusal
from penstock.node.logs import get_logger

log = get_logger()

CHECK_SECONDS = 0.25
WAITING_MOST = 1000
"""Events that wait for one follower; beyond that it gets a snapshot instead."""
FOLLOWERS_MOST = 100


class Follower:
    """Somebody who follows: `sees` tells which vhosts."""

    def __init__(self, sees: Callable[[str], bool]) -> None:
        self.sees = sees
        self.events: asyncio.Queue[Event | None] = asyncio.Queue(WAITING_MOST)
        self.has_missed = False

    def give(self, events: Iterable[Event]) -> None:
        """Have events wait for the follower."""
        for event in events:
            if event.vhost is None or self.sees(event.vhost):
                try:
                    self.events.put_nowait(event)
                except asyncio.QueueFull:
                    self.has_missed = True
                    return

    def forget(self) -> None:
        """Drop what waits, as a snapshot replaces it."""
        self.has_missed = False
        while not self.events.empty():
            self.events.get_nowait()


class Watch:
    """The followers of one node."""

    def __init__(self, broker: Broker, describe: Callable[[Iterable[Facts]], list[Facts]]) -> None:
        """`describe` adds to held channels what else they are shown with."""
        self._broker = broker
        self._describe = describe
        self._feed = Feed()
        self._followers: set[Follower] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether there are as many followers as there may be."""
        return len(self._followers) >= FOLLOWERS_MOST

    async def subscribe(self, follower: Follower, last: int | None) -> list[Event]:
        """Add a follower; return what it has missed since an event, or a snapshot."""
        if self._task is None:
            self._feed = Feed()
            await self._check()
            self._task = asyncio.get_running_loop().create_task(self._keep_checking())
        self._followers.add(follower)
        missed = None if last is None else self._feed.since(last)
        if missed is None:
            return [self.snapshot(follower)]
        return [event for event in missed if event.vhost is None or follower.sees(event.vhost)]

    def snapshot(self, follower: Follower) -> Event:
        """Return the present state, as far as a follower sees it."""
        facts = self._feed.snapshot(_milliseconds())
        for kind in ("held", "queues"):
            facts[kind] = [each for each in facts[kind] if follower.sees(each["vhost"])]
        return Event(facts["seq"], "snapshot", None, facts)

    def leave(self, follower: Follower) -> None:
        """Remove a follower."""
        self._followers.discard(follower)
        if not self._followers and self._task is not None:
            self._task.cancel()
            self._task = None

    async def close(self) -> None:
        """End all followers' streams."""
        for follower in self._followers:
            with suppress(asyncio.QueueFull):
                follower.events.put_nowait(None)
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _keep_checking(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self._check()
            except (OSError, Refusal) as error:  # an acceptor is starting or stopping
                log.debug("held channels cannot be seen", problem=str(error))

    async def _check(self) -> None:
        broker = self._broker
        broker.sampler.wake()
        held = await broker.held()
        queues = [facts for cause in queues_of(held).values() if (facts := _queue(broker, cause)) is not None]
        events = self._feed.update(self._describe(held), queues, broker.stops(), _milliseconds())
        for follower in self._followers:
            follower.give(events)


def _queue(broker: Broker, cause: Facts) -> Facts | None:
    marks = broker.marks(cause["id"])
    return None if marks is None else {"vhost": cause["vhost"], "name": cause["name"], **marks}


def _milliseconds() -> int:
    return round(time.time() * 1000)
