"""Commands on hold-offs (`router.authority.hold_offs`). Times are seconds since 1970, by the wall clock.

command           arguments                          result
flow_hold_offs                                       [{user, host, times, since, until, forget_at, reason}]
flow_readmit      user (str | None), host (the same) the hold-offs that it lifted; None: any
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from penstock.node.logs import get_logger
from router.authority.hold_offs import forget
from router.commands.administration import Administration
from router.model.records import HoldOff

log = get_logger()


def flow_hold_offs(administration: Administration) -> list[dict[str, Any]]:
    return [_shown(administration, found) for found in administration.ledger.topology.hold_offs.values()]


def flow_readmit(administration: Administration, user: str | None, host: str | None) -> list[dict[str, Any]]:
    """Lift the hold-offs of a user from a host (None: any), and return them."""
    ledger = administration.ledger
    found = [
        each for each in ledger.topology.hold_offs.values() if user in (None, each.user) and host in (None, each.host)
    ]
    forget(ledger, found)
    for each in found:
        log.info("hold-off lifted", user=each.user, host=each.host, times=each.times)
    return [_shown(administration, each) for each in found]


def _shown(administration: Administration, found: HoldOff) -> dict[str, Any]:
    return administration.clock.as_wall(asdict(found), "since", "until", "forget_at")


COMMANDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "flow_hold_offs": (flow_hold_offs, {}),
    "flow_readmit": (flow_readmit, dict.fromkeys(("user", "host"), (str, type(None)))),
}
