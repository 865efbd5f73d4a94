"""Invariants of ladders (docs/flow-holding.md)."""

from __future__ import annotations

from acceptor.core import AcceptorCore

LATE_SECONDS = 1.0
"""How much later than its time a rung may be left: ladders are polled."""


def rungs_are_left_in_time(core: AcceptorCore, now: float) -> None:
    """Check that no channel which a full queue holds is on a rung whose time is over."""
    for channel, climb in core.holding.escalations.climbs.items():
        if climb.next is not None and climb.seconds is not None and climb.gate.is_saturated():
            late = now - climb.since - climb.seconds
            assert late < LATE_SECONDS, f"{channel.whose()} is on {climb.rung} for {late:g} s longer than that lasts"


def whoever_is_refused_waits_for_nothing(core: AcceptorCore) -> None:
    """Check that a channel neither waits at the queue that refuses its publishes, nor for confirms from there."""
    for channel, climb in core.holding.escalations.climbs.items():
        if channel.refusing is not None:
            assert channel.refusing is climb.gate
            assert channel.refusing not in channel.gates, f"{channel.whose()} waits where it is refused"
            withheld = [
                span for span in channel.refusing.withheld if span.confirms is channel.confirms and not span.done
            ]
            assert not withheld, f"{channel.whose()} waits for confirms of the queue that refuses it"
