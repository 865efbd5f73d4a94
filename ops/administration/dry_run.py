"""Whom a policy would stop if it were set now."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

from ops.administration.node import ask
from ops.administration.processes import Facts, Processes
from ops.administration.publishing import published
from penstock.gauges import Gauges
from penstock.patterns import pattern
from penstock.watermarks import Marks, QueueLimits
from router.shared_limits import counted

Concerns = Callable[[Facts], bool]
OfRoute = Callable[[Facts, Facts], bool]
Stop = tuple[str, Concerns]
"""What would be reached, and whether a session runs into it."""


def would_stop(data: Path | None, policy: Facts) -> tuple[list[str], list[Facts], list[str]]:
    """Marks and rates that would be exceeded, the sessions publishing there, and which queues would hold nobody who
    comes by a binding that does not grant it. CommandError if there can be no such policy.

    A session is {connection, channel, user, vhost, client, peer, reason, held_by}; held_by is what holds it already.
    Where the policy is of rates it is watched for a while what is published.
    """
    trial = ask(data, "policy_try", **policy)
    processes = Processes(data)
    publishes = published(processes) if trial["rates"] else []
    present, gauges = processes.ask_acceptors("sessions"), processes.gauges
    stops = [
        *_queues(trial["queues"], gauges),
        *_shared(trial["shared"], present, gauges),
        *_rates(trial["rates"], publishes),
    ]
    stopped = []
    for session in present:
        reason = next((reason for reason, concerns in stops if concerns(session)), None)
        if reason is not None:
            facts = ("connection", "channel", "user", "vhost", "client", "peer", "held_by")
            stopped.append({**{fact: session[fact] for fact in facts}, "reason": reason})
    return [reason for reason, _ in stops], stopped, list(_ungranted(trial["queues"]))


def _along(of_route: OfRoute) -> Concerns:
    """Of a session, as one of its routes is concerned."""
    return lambda session: any(of_route(session, route) for route in session["routes"])


def _queues(queues: list[Facts], gauges: Gauges) -> Iterator[Stop]:
    for queue in queues:
        gauge, marks = gauges.queue_read(queue["slot"]), QueueLimits.from_wire(queue["limits"]).marks
        if gauge is None or gauge.queue_id != queue["queue_id"]:
            continue
        count, octets = gauge.ready + gauge.unacked, gauge.whole_bytes
        if marks.saturated(gauge.saturated, count, octets):
            reason = f"queue '{queue['name']}' in vhost '{queue['vhost']}': {_depth(marks, count, octets)}"
            yield reason, _along(_held_by(queue))


def _ungranted(queues: list[Facts]) -> Iterator[str]:
    """Queues that get limits, and what keeps them from holding all who publish to them."""
    for queue in queues:
        for exchange, why in queue["refusing"]:
            yield (
                f"queue '{queue['name']}' in vhost '{queue['vhost']}' would not hold what comes by exchange "
                f"'{exchange}': {why}, and the policy does not grant it"
            )


def _held_by(queue: Facts) -> OfRoute:
    """Whether publishes go to a queue along a route that grants it to hold them."""
    id, refusing = queue["queue_id"], {exchange for exchange, _ in queue["refusing"]}

    def held(session: Facts, route: Facts) -> bool:
        if id not in route["queues"]:
            return False
        lost = queue["loses_grant"] and not refusing.isdisjoint(route["exchanges"])
        return not refusing or not (lost or id in route["powerless"])

    return held


def _to_queue(id: int) -> OfRoute:
    return lambda session, route: id in route["queues"]


def _shared(limits: list[Facts], present: list[Facts], gauges: Gauges) -> Iterator[Stop]:
    for limit in limits:
        marks = Marks(limit["stop_count"], limit["resume_count"], limit["stop_bytes"], limit["resume_bytes"])
        concerns = _of_limit(limit)
        slots = limit["slots"]
        if limit["sort"] == "user":
            slots = _slots_of(limit, present, gauges)
        count, octets = counted(limit["how"], gauges.depths(array("q", slots)))
        if marks.saturated(False, count, octets):
            yield (
                f"{limit['limit']}, {limit['how']} of {len(slots)} queues: {_depth(marks, count, octets)}",
                _along(concerns),
            )


def _rates(limits: list[Facts], publishes: list[Facts]) -> Iterator[Stop]:
    """Rates that what is published now would exceed; who publishes it would be held, each in turn."""
    for limit in limits:
        concerns = _to_queue(limit["queue_id"]) if limit["sort"] == "queue" else _of_limit(limit)
        under = [each for each in publishes if concerns(each, each)]
        rates = {name: sum(each[name] for each in under) for name in ("messages", "octets")}
        if any(0 < limit[name] < rates[name] for name in rates):
            yield f"{limit['limit']}: {_amounts(limit, rates)} are published", _one_of(under)


def _amounts(limit: Facts, rates: dict[str, float]) -> str:
    words = (("messages", "messages"), ("octets", "bytes"))
    return " and ".join(f"{rates[name]:.0f} {word}" for name, word in words if limit[name])


def _one_of(publishes: list[Facts]) -> Concerns:
    """Whether it is a session of these."""
    sessions = {(each["connection"], each["channel"]) for each in publishes}
    return lambda session: (session["connection"], session["channel"]) in sessions


def _of_limit(limit: Facts) -> OfRoute:
    """Whether publishes of a session, along a route, come under a limit over several queues."""
    sort, name = limit["sort"], limit["name"]
    if sort == "node":
        return lambda session, route: True
    if sort == "vhost":
        return lambda session, route: bool(session["vhost"] == name)
    if sort == "user":
        return lambda session, route: bool(session["user"] == name and session["vhost"] == limit["vhost"])
    keys = pattern(limit["routing_key"])
    return lambda session, route: (
        session["vhost"] == limit["vhost"] and name in route["exchanges"] and keys.matches(route["routing_key"])
    )


def _slots_of(limit: Facts, present: list[Facts], gauges: Gauges) -> list[int]:
    """Where the queues are that a user publishes to: only the sessions tell which those are."""
    concerns = _of_limit(limit)
    ids = {id for each in present for route in each["routes"] if concerns(each, route) for id in route["queues"]}
    found = ((slot, gauges.queue_read(slot)) for slot in gauges.queue_slots() if slot >= gauges.shards)
    return [slot for slot, gauge in found if gauge is not None and gauge.queue_id in ids]


def _depth(marks: Marks, count: int, octets: int) -> str:
    pairs = ((marks.stop_count, f"{count} of {marks.stop_count} messages"),
             (marks.stop_bytes, f"{octets} of {marks.stop_bytes} bytes"))  # fmt: skip
    return "; ".join(text for stop, text in pairs if stop)
