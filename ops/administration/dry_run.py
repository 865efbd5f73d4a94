"""Whom a policy would stop if it were set now."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from pathlib import Path

from ops.administration.node import ask
from ops.administration.processes import Facts, Processes
from penstock.gauges import Gauges
from penstock.patterns import pattern
from penstock.watermarks import Marks, QueueLimits
from router.shared_limits import counted

Stop = tuple[str, Callable[[Facts, Facts], bool]]
"""What would be reached, and whether a session (and one of its routes) runs into it."""


def would_stop(data: Path | None, policy: Facts) -> tuple[list[str], list[Facts]]:
    """Marks that would be exceeded, and the sessions publishing to them. CommandError if there can be no such policy.

    A session is {connection, channel, user, vhost, client, peer, reason, held_by}; held_by is what holds it already.
    """
    trial = ask(data, "policy_try", **policy)
    processes = Processes(data)
    present, gauges = processes.ask_acceptors("sessions"), processes.gauges
    stops = [*_queues(trial["queues"], gauges), *_shared(trial["shared"], present, gauges)]
    stopped = []
    for session in present:
        reason = next((reason for reason, concerns in stops if _runs_into(session, concerns)), None)
        if reason is not None:
            facts = ("connection", "channel", "user", "vhost", "client", "peer", "held_by")
            stopped.append({**{fact: session[fact] for fact in facts}, "reason": reason})
    return [reason for reason, _ in stops], stopped


def _runs_into(session: Facts, concerns: Callable[[Facts, Facts], bool]) -> bool:
    return any(concerns(session, route) for route in session["routes"])


def _queues(queues: list[Facts], gauges: Gauges) -> Iterator[Stop]:
    for queue in queues:
        gauge, marks = gauges.queue_read(queue["slot"]), QueueLimits.from_wire(queue["limits"]).marks
        if gauge is None or gauge.queue_id != queue["queue_id"]:
            continue
        count, octets = gauge.ready + gauge.unacked, gauge.ready_bytes + gauge.unacked_bytes
        if marks.saturated(gauge.saturated, count, octets):
            reason = f"queue '{queue['name']}' in vhost '{queue['vhost']}': {_depth(marks, count, octets)}"
            yield reason, _to_queue(queue["queue_id"])


def _to_queue(id: int) -> Callable[[Facts, Facts], bool]:
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
            yield f"{limit['limit']}, {limit['how']} of {len(slots)} queues: {_depth(marks, count, octets)}", concerns


def _of_limit(limit: Facts) -> Callable[[Facts, Facts], bool]:
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
