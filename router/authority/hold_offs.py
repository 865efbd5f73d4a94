"""Who is refused at the next connect, because their producers were held for as long as they may.

A hold-off is of a user and an address. It lasts twice as long each time, up to a limit; whoever has not been held off
for a while after one has ended begins anew. Times are seconds since 1970 by the node's clock (`penstock.node.clock`),
lengths of time are seconds.
"""

from __future__ import annotations

from penstock.node import clock
from penstock.node.logs import get_logger
from router.authority.authority import Authority
from router.authority.ledger import Ledger
from router.model.records import HoldOff

log = get_logger()

HOLD_OFFS_MAX = 4096
"""Kept at once; beyond that the one that is forgotten first is forgotten now."""


def hold_off(
    authority: Authority, user: str, host: str, seconds: float, most: float, forget: float, reason: str
) -> None:
    """Hold off a user from that address. Further connections that end while it lasts do not make it longer."""
    ledger, now = authority.ledger, clock.now()
    known = ledger.topology.hold_offs.get((user, host))
    if known is not None and known.until > now:
        return
    times = known.times + 1 if known is not None else 1
    lasts = min(seconds * 2.0 ** min(times - 1, 60), most)
    found = HoldOff(user, host, times, now, now + lasts, now + lasts + forget, reason)
    if known is None and len(ledger.topology.hold_offs) >= HOLD_OFFS_MAX:
        first = min(ledger.topology.hold_offs.values(), key=lambda each: each.forget_at)
        ledger.record(first.change_gone(), durable=True)
    ledger.record(found.change(), durable=True)
    log.info("hold-off", user=user, host=host, times=times, seconds=lasts, reason=reason)


def forget_old(ledger: Ledger) -> None:
    """Forget those who have behaved since."""
    now = clock.now()
    forget(ledger, [found for found in ledger.topology.hold_offs.values() if found.forget_at <= now])


def forget(ledger: Ledger, found: list[HoldOff]) -> None:
    for each in found:
        ledger.record(each.change_gone(), durable=True)
