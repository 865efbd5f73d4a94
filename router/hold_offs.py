"""Who is refused at the next connect, because their producers were held for as long as they may.

A hold-off is of a user and an address. It lasts twice as long each time, up to a limit; whoever has not been held off
for a while after one has ended begins anew. Times are seconds since 1970, by the wall clock where they are told, by the
node's where they are kept (`penstock.clock`); lengths of time are seconds.

command           arguments                          result
flow_hold_offs                                       [{user, host, times, since, until, forget_at, reason}]
flow_readmit      user (str | None), host (the same) those that were taken back; None: any
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from penstock import clock
from penstock.logs import get_logger
from router.administration import Administration
from router.ledger import Ledger
from router.records import HoldOff

if TYPE_CHECKING:
    from router.authority import Authority

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
    _forget(ledger, [found for found in ledger.topology.hold_offs.values() if found.forget_at <= now])


def flow_hold_offs(administration: Administration) -> list[dict[str, Any]]:
    return [_shown(found) for found in administration.ledger.topology.hold_offs.values()]


def flow_readmit(administration: Administration, user: str | None, host: str | None) -> list[dict[str, Any]]:
    ledger = administration.ledger
    found = [
        each for each in ledger.topology.hold_offs.values() if user in (None, each.user) and host in (None, each.host)
    ]
    _forget(ledger, found)
    for each in found:
        log.info("hold-off taken back", user=each.user, host=each.host, times=each.times)
    return [_shown(each) for each in found]


def _shown(found: HoldOff) -> dict[str, Any]:
    return clock.as_wall(asdict(found), "since", "until", "forget_at")


def _forget(ledger: Ledger, found: list[HoldOff]) -> None:
    for each in found:
        ledger.record(each.change_gone(), durable=True)


COMMANDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "flow_hold_offs": (flow_hold_offs, {}),
    "flow_readmit": (flow_readmit, dict.fromkeys(("user", "host"), (str, type(None)))),
}
