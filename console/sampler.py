"""Rates and recent courses of the node and its queues, sampled once a second while somebody looks at them, and once a
minute otherwise.

    resting ──wake──▶ awake ──(nobody has asked for AWAKE_SECONDS)──▶ resting

A sample reads the queues that were written since the one before, so quiet queues cost nothing. The course of the node
(`console.course`) is kept from the start, that of a queue from the first time somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from mmap import mmap
from typing import NamedTuple

from console.course import Course, Sample
from penstock.memory.gauges import Gauges, QueueCounters, QueueGauge

AWAKE_SECONDS = 300.0
REST_SECONDS = 60.0
FRESH_SECONDS = 1.0
"""The age of a sample up to which waking takes no other."""
COURSES = 64
"""Queues whose course is kept; beyond that the one that was asked for least lately is dropped."""
RECENT_SECONDS = 5.0
"""A rate is 0 if the queue was last written longer ago."""

NOTHING = QueueCounters(0, 0, 0, 0, 0, 0, 0)


class Pair(NamedTuple):
    """The last two readings of a queue that differ, with their times."""

    before_at: float
    before: QueueGauge
    at: float
    now: QueueGauge


class Sampler:
    """The samples of one node. `clock` gives seconds of the machine's clock."""

    def __init__(self, gauges: Gauges, clock: Callable[[], float]) -> None:
        self._gauges = gauges
        self._clock = clock
        self._asked = -AWAKE_SECONDS
        self._seen = memoryview(mmap(-1, 8 * gauges.slots)).cast("Q")
        self._pairs: dict[int, Pair] = {}
        self._ids: dict[int, int] = {}
        self._slots: dict[int, int] = {}
        self._last = -REST_SECONDS
        self._sums = [0, 0, *NOTHING]
        self.node = Course()
        self._courses: dict[int, Course] = {}

    @property
    def is_awake(self) -> bool:
        """Whether it samples once a second."""
        return self._clock() - self._asked < AWAKE_SECONDS

    def wake(self) -> None:
        """Sample once a second from now on, as somebody asks for rates; at once, if the last sample is old."""
        self._asked = now = self._clock()
        if now - self._last > FRESH_SECONDS:
            self._sample()

    def tick(self) -> None:
        """Take a sample, if it is time; called once a second."""
        if self.is_awake or self._clock() - self._last >= REST_SECONDS:
            self._sample()

    def pair(self, id: int) -> Pair | None:
        """Return the last two readings of a queue; None if it was not read yet, or not written lately."""
        pair = self._pairs.get(id)
        return None if pair is None or self._clock() - pair.at > RECENT_SECONDS else pair

    def rate(self, id: int, count: Callable[[QueueGauge], int]) -> float:
        """Return by how much a count of a queue has grown a second, lately."""
        return max(self.slope(id, count), 0.0)

    def slope(self, id: int, number: Callable[[QueueGauge], int]) -> float:
        """Return by how much a number of a queue has changed a second, lately; negative if it falls."""
        pair = self.pair(id)
        if pair is None or pair.at <= pair.before_at:
            return 0.0
        return (number(pair.now) - number(pair.before)) / (pair.at - pair.before_at)

    def latest(self) -> Iterator[QueueGauge]:
        """Return the last reading of each queue."""
        return (pair.now for pair in self._pairs.values())

    def course(self, id: int) -> Course:
        """Return the course of a queue since it was first asked for."""
        found = self._courses.pop(id, None)
        if found is None:
            found = Course()
            if len(self._courses) >= COURSES:
                del self._courses[next(iter(self._courses))]
        self._courses[id] = found
        return found

    def _sample(self) -> None:
        now, left = self._clock(), []
        for slot in self._gauges.queues_written(self._seen):
            gauge = self._gauges.queue_read(slot)
            id = self._ids.get(slot)
            if id is not None and (gauge is None or gauge.queue_id != id):
                del self._ids[slot]
                left.append((id, slot))
            if gauge is not None and not gauge.torn:
                self._put(slot, gauge, now)
        for id, slot in left:  # now, as some have moved to other slots
            self._drop(id, slot)
        self._last = now
        held = sum(self._gauges.counters_read("acceptor", each).held_channels for each in range(self._gauges.acceptors))
        self.node.add(Sample(now, self._sums[0], self._sums[1], QueueCounters._make(self._sums[2:]), held))
        for id, course in self._courses.items():
            pair = self._pairs.get(id)
            if pair is not None:
                gauge = pair.now
                course.add(Sample(now, gauge.ready, gauge.unacked, gauge.counters, int(gauge.saturated)))

    def _put(self, slot: int, gauge: QueueGauge, now: float) -> None:
        id = gauge.queue_id
        self._ids[slot], self._slots[id] = id, slot
        known = self._pairs.get(id)
        if known is None and self.node.fine:  # made since the last sample
            empty = gauge._replace(ready=0, unacked=0, counters=NOTHING)
            known = Pair(self._last, empty, self._last, empty)
        if known is None or known.now.since_us > gauge.since_us:
            self._pairs[id] = Pair(now, gauge, now, gauge)
            self._add(gauge, gauge if known is None else known.now)
        else:
            before = known.now if gauge.since_us == known.now.since_us else gauge
            # A quiet time before this second is not part of the rate.
            self._pairs[id] = Pair(max(known.at, self._last), before, now, gauge)
            self._add(gauge, known.now)
        if known is None:
            self._sums[0] += gauge.ready
            self._sums[1] += gauge.unacked

    def _add(self, gauge: QueueGauge, before: QueueGauge) -> None:
        """Add a change of one queue to the sums of the node; counters that began anew count from 0."""
        self._sums[0] += gauge.ready - before.ready
        self._sums[1] += gauge.unacked - before.unacked
        if gauge is before:
            return
        goes_on = gauge.since_us == before.since_us
        for index, (after, earlier) in enumerate(zip(gauge.counters, before.counters, strict=True), 2):
            self._sums[index] += max(after - earlier, 0) if goes_on else after

    def _drop(self, id: int, slot: int) -> None:
        """Forget a queue that has left its slot, unless it is already in another one."""
        if self._slots[id] == slot:
            del self._slots[id]
            pair = self._pairs.pop(id)
            self._sums[0] -= pair.now.ready
            self._sums[1] -= pair.now.unacked
