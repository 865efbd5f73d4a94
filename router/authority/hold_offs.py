"""Hold-offs: users refused at their next connect, because their producers were held for as long as is allowed.

A hold-off is of a user and an address. Each lasts twice as long as the one before, up to a limit; after a while without
a hold-off the user begins anew. Times are seconds since 1970 by the node's clock (`penstock.node.clock`), durations are
seconds.
"""

from __future__ import annotations

from penstock.node.logs import get_logger
from router.authority.authority import Authority
from router.authority.ledger import Ledger
from router.model.records import HoldOff

log = get_logger()

HOLD_OFFS_MAX = 4096
"""The most hold-offs kept at once; a further one replaces the one that would be forgotten first."""


def hold_off(
    authority: Authority, user: str, host: str, seconds: float, most: float, forget: float, reason: str
) -> None:
    """Hold off a user from an address. Further connections that end during the hold-off do not extend it.

    It lasts `seconds` the first time, `most` at the longest, and is forgotten `forget` after its end.
    """
    ledger, now = authority.ledger, authority.clock.now()
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


def forget_expired(authority: Authority) -> None:
    """Forget the hold-offs whose time to be forgotten has come."""
    now = authority.clock.now()
    forget(authority.ledger, [found for found in authority.topology.hold_offs.values() if found.forget_at <= now])


def forget(ledger: Ledger, found: list[HoldOff]) -> None:
    """Forget these hold-offs; their users may connect and begin anew."""
    for each in found:
        ledger.record(each.change_gone(), durable=True)
