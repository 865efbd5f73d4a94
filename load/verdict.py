"""Was the run good? Each check returns a finding; all are pure functions of the counts and observations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from load.counters import COPY_SHIFT, Stop, Tally
from load.options import LoadOptions
from load.probe import INTERVAL_SECONDS, Depth

EXAMPLES_MAX = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the verdict."""

    what: str
    good: bool
    found: str


@dataclass(frozen=True, slots=True)
class Observed:
    """The basis of the verdict; `failures` and the latency are Locust's."""

    tally: Tally
    depths: Sequence[Depth]
    failures: int
    end_to_end_p99_ms: float
    seconds: float
    roles: Mapping[str, str]
    """The role of each publisher class; publishers of the same role should get equal shares."""
    unacked: Mapping[str, int]
    """Messages of each queue that may be unacked: marks count them, the depth seen does not."""


def judge(options: LoadOptions, observed: Observed) -> Iterator[Finding]:
    """Make every check that the options ask for."""
    tally, bounds = observed.tally, options.bounds
    yield Finding("failures", observed.failures == 0, f"{observed.failures}")
    yield Finding(
        "messages received", tally.sums["received"] > 0 or not options.consumers, f"{tally.sums['received']:,.0f}"
    )
    if options.verify == "yes":
        yield lost(tally)
        yield Finding("duplicated", tally.sums["duplicated"] == 0, f"{tally.sums['duplicated']:,.0f}")
        yield Finding("out of order", tally.sums["reordered"] == 0, f"{tally.sums['reordered']:,.0f}")
    if bounds.max_depth:
        deepest = max((depth.deepest for depth in observed.depths), default=0)
        yield Finding("deepest queue", deepest <= bounds.max_depth, f"{deepest:,}, allowed {bounds.max_depth:,}")
    if bounds.max_resume_seconds:
        yield resumed_in_time(bounds.max_resume_seconds, options.resume_count, observed)
    if bounds.max_end_to_end_ms:
        p99 = observed.end_to_end_p99_ms
        yield Finding(
            "end to end p99", p99 <= bounds.max_end_to_end_ms, f"{p99:.0f} ms, allowed {bounds.max_end_to_end_ms:g}"
        )
    if bounds.min_fairness:
        yield fair(bounds.min_fairness, tally, observed.roles)
    if bounds.min_rate:
        rate = tally.sums["received"] / observed.seconds if observed.seconds > 0 else 0.0
        yield Finding("rate", rate >= bounds.min_rate, f"{rate:,.0f} received a second, wanted {bounds.min_rate:g}")


def lost(tally: Tally) -> Finding:
    """Check that every confirmed message was received, if only by the drain at the end."""
    missing = tally.lost()
    count = sum(len(ranges) for ranges in missing.values())
    examples = [
        f"producer {stream % (1 << COPY_SHIFT):08x} {start}…{end - 1}"
        for stream, ranges in missing.items()
        for start, end in ranges
    ]
    text = f"{count:,} of {tally.sums['confirmed']:,.0f} confirmed"
    if examples:
        text += f": {', '.join(examples[:EXAMPLES_MAX])}{' …' if len(examples) > EXAMPLES_MAX else ''}"
    return Finding("lost", not count, text)


def resumed_in_time(allowed: float, resume_count: int, observed: Observed) -> Finding:
    """Check, as far as depths show it, that no publisher stayed stopped for more than `allowed` seconds while all its
    queues had room again.
    """
    room = {queue: resume_count - unacked for queue, unacked in observed.unacked.items()}
    longest = max((held_without_need(stop, observed.depths, room) for stop in observed.tally.stops), default=0.0)
    return Finding(
        "stopped with room again",
        longest <= allowed,
        f"at most {longest:.1f} s, allowed {allowed:g} (seen every {INTERVAL_SECONDS:g} s)",
    )


def held_without_need(stop: Stop, depths: Sequence[Depth], room: Mapping[str, int]) -> float:
    """Return the seconds at the end of a stop during which every sample of its queues was at or below `room`."""
    since = stop.ended
    for depth in reversed(depths):
        if depth.at > stop.ended:
            continue
        if depth.at < stop.began or any(depth.ready[queue] > room[queue] for queue in stop.queues):
            break
        since = depth.at
    return stop.ended - since


def fair(least: float, tally: Tally, roles: Mapping[str, str]) -> Finding:
    """Compare publishers of the same role, whatever their class: one that ignores flow control must not get more. The
    index of their shares must be at least `least`.
    """
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for user, producers in tally.published.items():
        shares[roles.get(user, user)] += producers.values()
    found = {role: fairness(published) for role, published in shares.items()}
    good = all(index >= least for index in found.values())
    text = ", ".join(f"{index:.3f} of {role}" for role, index in sorted(found.items())) or "nothing published"
    return Finding("fairness", good, f"{text}, wanted {least:g}")


def fairness(shares: Iterable[float]) -> float:
    """Jain's index: 1 if all shares are equal, 1/n if one of n has everything."""
    shares = list(shares)
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
