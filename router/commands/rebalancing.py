"""Commands on the lease of applying a plan of moves, one plan at a time: names, arguments, results.

command            arguments                                        result
rebalance_hold     plan, holder, seconds, limits, progress          the lease
rebalance_release  plan, holder                                     whether it was held
rebalance_lease                                                     the lease, or None
rebalance_limit    limits                                           the lease
rebalance_abort    plan (str | None: any)                           the lease

A lease is {plan, holder, since, until, limits, progress, abort}. Its holder renews it before it expires, with the
plan's progress; the answer has the `limits` and the `abort` that operators have set meanwhile. The lease is kept in
memory: a new incarnation of the router gives it to the first that asks, which is the former holder unless that is gone.
`limits` maps names to numbers that the holder interprets; times are seconds since 1970 by the wall clock, in the lease
itself by the node's (`penstock.node.clock`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from penstock.control.control import Refusal
from penstock.node.logs import get_logger
from router.authority.rebalancing import Lease
from router.commands.administration import Administration

log = get_logger()

LEASE_SECONDS_MAX = 600.0
ENTRIES_MAX = 32
"""The most limits of a lease, and the most entries of its progress."""
TEXT_MAX = 200


def rebalance_hold(
    administration: Administration,
    plan: str,
    holder: str,
    seconds: float,
    limits: dict[str, Any],
    progress: dict[str, Any],
) -> dict[str, Any]:
    """Take the lease, or renew it, leaving its limits as they are. Refusal if there is another holder."""
    now = administration.clock.now()
    if not 0 < seconds <= LEASE_SECONDS_MAX:
        raise Refusal("invalid", f"a lease lasts up to {LEASE_SECONDS_MAX:g} seconds, not {seconds}")
    if max(len(plan), len(holder)) > TEXT_MAX or len(progress) > ENTRIES_MAX:
        raise Refusal("invalid", "the plan, its holder or its progress is too long")
    rebalancing = administration.rebalancing
    lease = rebalancing.current_lease(now)
    if lease is None:
        lease = Lease(plan, holder, now, now + seconds, _checked(limits), progress)
        rebalancing.lease = lease
        log.info("rebalancing: lease", plan=plan, holder=holder, seconds=seconds)
    elif (lease.plan, lease.holder) != (plan, holder):
        left = lease.until - now
        raise Refusal(
            "exists", f"plan {lease.plan} is being applied by {lease.holder}, whose lease expires in {left:.0f} s"
        )
    lease.until = now + seconds
    lease.progress = progress
    return _shown(administration, lease)


def rebalance_release(administration: Administration, plan: str, holder: str) -> bool:
    """Release the lease; whether this holder had it for this plan."""
    lease = administration.rebalancing.current_lease(administration.clock.now())
    if lease is None or (lease.plan, lease.holder) != (plan, holder):
        return False
    administration.rebalancing.lease = None
    log.info("rebalancing: lease released", plan=plan, holder=holder)
    return True


def rebalance_lease(administration: Administration) -> dict[str, Any] | None:
    """Return the lease, None if there is none."""
    lease = administration.rebalancing.current_lease(administration.clock.now())
    return None if lease is None else _shown(administration, lease)


def rebalance_limit(administration: Administration, limits: dict[str, Any]) -> dict[str, Any]:
    """Change limits of the lease, for its holder to apply. Refusal of a limit that it does not have."""
    lease = _lease(administration)
    unknown = [name for name in limits if name not in lease.limits]
    if unknown:
        raise Refusal("invalid", f"there is no limit {unknown[0]!r}, only {', '.join(lease.limits)}")
    lease.limits |= _checked(limits)
    log.info("rebalancing: limits", plan=lease.plan, **lease.limits)
    return _shown(administration, lease)


def rebalance_abort(administration: Administration, plan: str | None) -> dict[str, Any]:
    """Ask the holder of the lease to abort its plan."""
    lease = _lease(administration)
    if plan not in (None, lease.plan):
        raise Refusal("not_found", f"plan {plan} is not being applied, {lease.plan} is")
    lease.abort = True
    log.info("rebalancing: abort", plan=lease.plan)
    return _shown(administration, lease)


def _lease(administration: Administration) -> Lease:
    lease = administration.rebalancing.current_lease(administration.clock.now())
    if lease is None:
        raise Refusal("not_found", "no plan is being applied")
    return lease


def _shown(administration: Administration, lease: Lease) -> dict[str, Any]:
    return administration.clock.as_wall(asdict(lease), "since", "until")


def _checked(limits: dict[str, Any]) -> dict[str, float]:
    if len(limits) > ENTRIES_MAX:
        raise Refusal("invalid", f"there are more than {ENTRIES_MAX} limits")
    for name, value in limits.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise Refusal("invalid", f"limit {name} is {value!r}, not a number from 0 on")
    return dict(limits)


COMMANDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "rebalance_hold": (
        rebalance_hold,
        {"plan": str, "holder": str, "seconds": (int, float), "limits": dict, "progress": dict},
    ),
    "rebalance_release": (rebalance_release, {"plan": str, "holder": str}),
    "rebalance_lease": (rebalance_lease, {}),
    "rebalance_limit": (rebalance_limit, {"limits": dict}),
    "rebalance_abort": (rebalance_abort, {"plan": (str, type(None))}),
}
