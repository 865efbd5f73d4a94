"""Commands on operators' stops: names, arguments, results.

command      arguments                                                          result
flow_stop    vhost, exchange, key, queue, user, connection (str | None each),   the stop, as in flow_stops
             author, reason, seconds (a number, or None: no end)
flow_start   vhost, exchange, key, queue, user, connection (str | None each)    [the stops of exactly these names]
flow_lift    number                                                             the stop
flow_stops                                                                      [{number, vhost, …, since, until}]

A stop replaces one with the same names. Times are seconds since 1970, by the wall clock in results, by the node's clock
in records (`penstock.node.clock`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from penstock.control.control import Refusal
from penstock.node.logs import get_logger
from router.authority.ledger import Ledger
from router.commands.administration import Administration, check_vhost
from router.model.records import Stop

log = get_logger()

STOPS_MAX = 1024
"""The most stops at a time: each publish of a new route is matched against all of them."""
TEXT_MAX = 200
"""Characters of a reason, and of an author: clients get both in one short string."""

NAMES = ("vhost", "exchange", "key", "queue", "user", "connection")
SELECTOR: dict[str, Any] = dict.fromkeys(NAMES, (str, type(None)))


def flow_stop(
    administration: Administration, author: str, reason: str, seconds: float | None, **names: str | None
) -> dict[str, Any]:
    """Stop the publishes that match all the names, for `seconds` or (None) without an end."""
    ledger = administration.ledger
    _check(ledger, names)
    for what, text in (("author", author), ("reason", reason)):
        if len(text) > TEXT_MAX or not text.isprintable():
            raise Refusal("invalid", f"the {what} has to be one line of at most {TEXT_MAX} characters")
    if seconds is not None and not 0 < seconds < float("inf"):
        raise Refusal("invalid", f"a stop cannot last {seconds} seconds")
    replaced = _named(ledger, names)
    if len(ledger.topology.stops) - len(replaced) >= STOPS_MAX:
        raise Refusal("failed", f"there are {STOPS_MAX} stops already")
    _lift(administration, replaced, "replaced")
    now = administration.clock.now()
    stop = Stop(ledger.next_stop(), **names, author=author, reason=reason, since=now, until=seconds and now + seconds)
    ledger.record(stop.change(), durable=True)
    log.info("operator stop", **_log_fields(administration, stop))
    return _shown(administration, stop)


def flow_start(administration: Administration, **names: str | None) -> list[dict[str, Any]]:
    """Lift the stops of exactly these names, and return them."""
    _check(administration.ledger, names)
    return _lift(administration, _named(administration.ledger, names), "started")


def flow_lift(administration: Administration, number: int) -> dict[str, Any]:
    """Lift the stop of that number, and return it."""
    stop = administration.ledger.topology.stops.get(number)
    if stop is None:
        raise Refusal("not_found", f"there is no stop {number}")
    return _lift(administration, [stop], "started")[0]


def flow_stops(administration: Administration) -> list[dict[str, Any]]:
    return [_shown(administration, stop) for stop in administration.ledger.topology.stops.values()]


def lift_expired(administration: Administration) -> None:
    """Lift the stops whose time is up."""
    now, stops = administration.clock.now(), administration.ledger.topology.stops.values()
    _lift(administration, [stop for stop in stops if stop.until and stop.until <= now], "expired")


def _check(ledger: Ledger, names: dict[str, str | None]) -> None:
    if names["vhost"] is not None:
        check_vhost(ledger, names["vhost"])
    elif any(names[name] is not None for name in ("exchange", "key", "queue")):
        raise Refusal("invalid", "an exchange, a routing key or a queue belongs to a vhost, which has to be named")


def _named(ledger: Ledger, names: dict[str, str | None]) -> list[Stop]:
    return [
        stop for stop in ledger.topology.stops.values() if all(getattr(stop, name) == names[name] for name in NAMES)
    ]


def _lift(administration: Administration, stops: list[Stop], how: str) -> list[dict[str, Any]]:
    for stop in stops:
        administration.ledger.record(stop.change_gone(), durable=True)
        held_seconds = round(administration.clock.now() - stop.since, 3)
        log.info("operator stop ends", how=how, held_seconds=held_seconds, **_log_fields(administration, stop))
    return [_shown(administration, stop) for stop in stops]


def _shown(administration: Administration, stop: Stop) -> dict[str, Any]:
    return administration.clock.as_wall(asdict(stop), "since", "until")


def _log_fields(administration: Administration, stop: Stop) -> dict[str, Any]:
    named = {name: getattr(stop, name) for name in NAMES if getattr(stop, name) is not None}
    facts = {name: _shown(administration, stop)[name] for name in ("author", "reason", "until")}
    return {"number": stop.number, **named, **facts}


COMMANDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "flow_stop": (flow_stop, {**SELECTOR, "author": str, "reason": str, "seconds": (int, float, type(None))}),
    "flow_start": (flow_start, SELECTOR),
    "flow_lift": (flow_lift, {"number": int}),
    "flow_stops": (flow_stops, {}),
}
