"""The way of lone messages through processes, from the system calls of these.

A message is alone: the next one is written after it has arrived. So its way is found backwards. The consumer's read of
it was made possible by the last write of another process before it; that process had read something before, which was
written by another one; and so on, to the producer's write. Each process on the way spends time in three stages:

    wakes       from the write before it until its wait for input has returned
    receives    until it has read
    works       until it begins to write

The last one, the consumer, does not work. The sum of all stages is the time from the producer's write to the end of the
consumer's read. What a process does after its write, such as the rest of its turn, is no part of the way.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from load.ftrace import Call

PRODUCER, CONSUMER = "producer", "consumer"
WRITES = frozenset({"write", "writev", "sendto", "sendmsg"})
READS = frozenset({"read", "readv", "recvfrom", "recvmsg"})
WAITS = frozenset({"epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"})
MOST_VISITS = 12
"""Longer ways are no message's own."""


class Stage(NamedTuple):
    """A stage of one visit to a process: "acceptor wakes". `visit` counts the processes on the way."""

    visit: int
    process: str
    does: str

    def __str__(self) -> str:
        return f"{self.process} {self.does}"


@dataclass(frozen=True, slots=True)
class Way:
    """The way that most messages took: microseconds of each, by stage in order, and in all; and the share of all
    messages that took it.
    """

    stages: Mapping[Stage, Sequence[int]]
    whole: Sequence[int]
    share: float


class _Process:
    """The calls of one process: its writes, reads and waits, each in order."""

    def __init__(self, calls: Iterable[Call]) -> None:
        done = sorted((call for call in calls if call.result > 0), key=lambda call: call.began)
        self.writes = [call for call in done if call.name in WRITES]
        self.reads = sorted((call for call in done if call.name in READS), key=lambda call: call.ended)
        self.waits = sorted((call for call in done if call.name in WAITS), key=lambda call: call.ended)
        self.written_at = [call.began for call in self.writes]
        self.read_at = [call.ended for call in self.reads]
        self.woken_at = [call.ended for call in self.waits]

    def write_before(self, moment: int) -> Call | None:
        """Return the last write that began before a moment."""
        at = bisect_left(self.written_at, moment)
        return self.writes[at - 1] if at else None

    def read_before(self, moment: int) -> Call | None:
        """Return the last read that had ended by a moment."""
        at = bisect_right(self.read_at, moment)
        return self.reads[at - 1] if at else None

    def woken_before(self, moment: int) -> int:
        """Return when a wait for input had returned last, by a moment."""
        at = bisect_right(self.woken_at, moment)
        return self.woken_at[at - 1] if at else 0


def way(calls: Iterable[Call], processes: Mapping[int, str]) -> Way:
    """Find the way that most messages took. `processes` names the process of each thread, `PRODUCER` and `CONSUMER`
    among them. ValueError if no message has arrived.
    """
    by_process: defaultdict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.thread in processes:
            by_process[processes[call.thread]].append(call)
    known = {name: _Process(its) for name, its in by_process.items()}
    if CONSUMER not in known:
        raise ValueError("no message has arrived")
    found = [each for read in known[CONSUMER].reads if (each := _back_from(read, known))]
    if not found:
        raise ValueError("no message has arrived")
    (stages, count), *_ = Counter(tuple(each) for each in found).most_common(1)
    taken = [each for each in found if tuple(each) == stages]
    times = {stage: [each[stage] for each in taken] for stage in stages}
    return Way(times, [sum(each.values()) for each in taken], count / len(found))


class _Visit(NamedTuple):
    """A process on a message's way, and microseconds of its stages; the consumer does not work."""

    process: str
    wakes: int
    receives: int
    works: int | None


def _back_from(read: Call, known: Mapping[str, _Process]) -> dict[Stage, int]:
    """Follow a message back from the consumer's read of it; return its stages in order, none if it is lost track of."""
    visits: list[_Visit] = []
    process, works = CONSUMER, None
    while len(visits) < MOST_VISITS:
        writes = [(write.began, name) for name, its in known.items() if name != process
                  if (write := its.write_before(read.ended))]  # fmt: skip
        if not writes:
            return {}
        written, writer = max(writes)
        woken = max(known[process].woken_before(read.ended), written)
        visits.append(_Visit(process, woken - written, read.ended - woken, works))
        if writer == PRODUCER:
            return _stages(visits[::-1])
        earlier = known[writer].read_before(written)
        if earlier is None:
            return {}
        process, read, works = writer, earlier, written - earlier.ended
    return {}


def _stages(visits: Sequence[_Visit]) -> dict[Stage, int]:
    found = {}
    for at, (process, *times) in enumerate(visits):
        for does, took in zip(("wakes", "receives", "works"), times, strict=True):
            if took is not None:
                found[Stage(at, process, does)] = took
    return found
