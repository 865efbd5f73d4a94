"""Was the run good? Each check says what it found, and all are pure: they judge what was counted and observed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from load.counters import Stop, Tally
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
    """All that a run is judged by; `failures` and the latency are Locust's."""

    tally: Tally
    depths: Sequence[Depth]
    failures: int
    end_to_end_p99_ms: float


def judge(options: LoadOptions, observed: Observed) -> Iterator[Finding]:
    """Every check that the options ask for."""
    tally = observed.tally
    yield Finding("failures", observed.failures == 0, f"{observed.failures}")
    yield Finding(
        "messages received", tally.sums["received"] > 0 or not options.consumers, f"{tally.sums['received']:,.0f}"
    )
    if options.verify == "yes":
        yield lost(tally)
        yield Finding("duplicated", tally.sums["duplicated"] == 0, f"{tally.sums['duplicated']:,.0f}")
        yield Finding("out of order", tally.sums["reordered"] == 0, f"{tally.sums['reordered']:,.0f}")
    if options.max_depth:
        deepest = max((depth.messages for depth in observed.depths), default=0)
        yield Finding("deepest queue", deepest <= options.max_depth, f"{deepest:,}, allowed {options.max_depth:,}")
    if options.max_resume_seconds:
        yield resumed_in_time(options, tally.stops, observed.depths)
    if options.max_end_to_end_ms:
        p99 = observed.end_to_end_p99_ms
        yield Finding(
            "end to end p99", p99 <= options.max_end_to_end_ms, f"{p99:.0f} ms, allowed {options.max_end_to_end_ms:g}"
        )
    if options.min_fairness:
        index = fairness(tally.published.values())
        yield Finding("fairness", index >= options.min_fairness, f"{index:.3f}, wanted {options.min_fairness:g}")


def lost(tally: Tally) -> Finding:
    """What was confirmed must have arrived, some of it perhaps by the drain at the end."""
    missing = tally.lost()
    count = sum(len(ranges) for ranges in missing.values())
    examples = [
        f"producer {producer:08x} {start}…{end - 1}" for producer, ranges in missing.items() for start, end in ranges
    ]
    text = f"{count:,} of {tally.sums['confirmed']:,.0f} confirmed"
    if examples:
        text += f": {', '.join(examples[:EXAMPLES_MAX])}{' …' if len(examples) > EXAMPLES_MAX else ''}"
    return Finding("lost", not count, text)


def resumed_in_time(options: LoadOptions, stops: Iterable[Stop], depths: Sequence[Depth]) -> Finding:
    """No publisher is to stay stopped while the queue has room again."""
    longest = max((held_without_need(stop, depths, options.resume_count) for stop in stops), default=0.0)
    return Finding(
        "stopped with room again",
        longest <= options.max_resume_seconds,
        f"at most {longest:.1f} s, allowed {options.max_resume_seconds:g} (seen every {INTERVAL_SECONDS:g} s)",
    )


def held_without_need(stop: Stop, depths: Sequence[Depth], resume_count: int) -> float:
    """Seconds at the end of a stop in which the queue was always seen at or below its resume mark."""
    since = stop.ended
    for depth in reversed(depths):
        if depth.at > stop.ended:
            continue
        if depth.at < stop.began or depth.messages > resume_count:
            break
        since = depth.at
    return stop.ended - since


def fairness(shares: Iterable[float]) -> float:
    """Jain's index: 1 if all have the same, 1/n if one of n has all."""
    shares = list(shares)
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
