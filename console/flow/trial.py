"""The producers that a policy would stop if it were set now."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any

from penstock.limits.watermarks import Marks, QueueLimits
from penstock.memory.gauges import Gauges
from penstock.text.patterns import pattern
from router.model.records import DEFAULT_EXCHANGE
from router.model.shared_limits import counted

Facts = dict[str, Any]
Concerns = Callable[[Facts], bool]
OfRoute = Callable[[Facts, Facts], bool]
Stop = tuple[str, Concerns]
"""The limit that would be reached, and a test of whether it concerns a channel."""


def would_stop(
    trial: Facts, present: list[Facts], publishes: list[Facts], gauges: Gauges
) -> tuple[list[str], list[Facts], list[str]]:
    """Return the marks and rates that a policy would exceed, the channels publishing there, and the queues that would
    not hold publishes through a binding that does not grant it.

    `trial` is the router's answer (`router.commands.policy_trial`), `present` the publishing channels
    (`acceptor.holding.publishing_channels`), `publishes` their present rates (`console.flow.publishing`), which only a
    policy with rates needs. A channel is {connection, channel, user, vhost, client, peer, reason, held_by}; `held_by`
    is the cause for which it is held already.
    """
    powers = _Powers(trial["powers"])
    stops = [
        *_queues(trial["queues"], powers, gauges),
        *_shared(trial["shared"], powers, present, gauges),
        *_rates(trial["rates"], powers, publishes),
    ]
    stopped = []
    for channel in present:
        reason = next((reason for reason, concerns in stops if concerns(channel)), None)
        if reason is not None:
            facts = ("connection", "channel", "user", "vhost", "client", "peer", "held_by")
            stopped.append({**{fact: channel[fact] for fact in facts}, "reason": reason})
    limited = {each["queue_id"] for each in (*trial["queues"], *trial["rates"])}
    ungranted = [line for each in trial["powers"] if each["queue_id"] in limited for line in _ungranted(each)]
    return [reason for reason, _ in stops], stopped, ungranted


def _on_any_route(of_route: OfRoute) -> Concerns:
    """Return a test of whether one of a channel's routes is concerned."""
    return lambda channel: any(of_route(channel, route) for route in channel["routes"])


class _Powers:
    """The power of queues over publishes (`router.commands.policy_trial`)."""

    def __init__(self, powers: list[Facts]) -> None:
        self._by_id = {each["queue_id"]: each for each in powers}

    def holding_by(self, id: int) -> OfRoute:
        """Return a test of whether a queue could hold publishes on a route."""
        return lambda channel, route: self.could_hold(id, route)

    def could_hold(self, id: int, route: Facts) -> bool:
        if id not in route["queues"]:
            return False
        power = self._by_id.get(id)
        if power is None:
            return id not in route["powerless"]
        if route["exchanges"] == [DEFAULT_EXCHANGE]:
            return True
        if power["weak"]:
            return False
        if power["anew"]:
            return {exchange for exchange, _ in power["refusing"]}.isdisjoint(route["exchanges"])
        return not power["refusing"] or id not in route["powerless"]


def _queues(queues: list[Facts], powers: _Powers, gauges: Gauges) -> Iterator[Stop]:
    for queue in queues:
        gauge, marks = gauges.queue_read(queue["slot"]), QueueLimits.from_wire(queue["limits"]).marks
        if gauge is None or gauge.queue_id != queue["queue_id"]:
            continue
        count, nbytes = gauge.ready + gauge.unacked, gauge.whole_bytes
        if marks.saturated(gauge.saturated, count, nbytes):
            reason = f"queue '{queue['name']}' in vhost '{queue['vhost']}': {_depth(marks, count, nbytes)}"
            yield reason, _on_any_route(powers.holding_by(queue["queue_id"]))


def _ungranted(power: Facts) -> Iterator[str]:
    """Yield the reasons why a queue that gets limits would not hold all its producers."""
    queue = f"queue '{power['name']}' in vhost '{power['vhost']}' would not hold publishes through"
    if power["weak"]:
        yield f"{queue} exchanges: {power['weak']}, and the policy does not grant it"
        return
    for exchange, why in power["refusing"]:
        yield f"{queue} exchange '{exchange}': {why}, and the policy does not grant it"


def _shared(limits: list[Facts], powers: _Powers, present: list[Facts], gauges: Gauges) -> Iterator[Stop]:
    for limit in limits:
        marks = Marks(limit["stop_count"], limit["resume_count"], limit["stop_bytes"], limit["resume_bytes"])
        concerns = _under_limit(limit)
        slots = limit["slots"]
        if limit["sort"] == "user":
            slots = _slots_of(limit, powers, present, gauges)
        count, nbytes = counted(limit["how"], gauges.depths(array("q", slots)))
        if marks.saturated(False, count, nbytes):
            yield (
                f"{limit['limit']}, {limit['how']} of {len(slots)} queues: {_depth(marks, count, nbytes)}",
                _on_any_route(concerns),
            )


def _rates(limits: list[Facts], powers: _Powers, publishes: list[Facts]) -> Iterator[Stop]:
    """Yield the rates that the present publishes would exceed; their channels would be held, each in turn."""
    for limit in limits:
        concerns = powers.holding_by(limit["queue_id"]) if limit["sort"] == "queue" else _under_limit(limit)
        under = [each for each in publishes if concerns(each, each)]
        rates = {name: sum(each[name] for each in under) for name in ("messages", "bytes")}
        if any(0 < limit[name] < rates[name] for name in rates):
            yield f"{limit['limit']}: {_amounts(limit, rates)} are published", _is_one_of(under)


def _amounts(limit: Facts, rates: dict[str, float]) -> str:
    words = (("messages", "messages"), ("bytes", "bytes"))
    return " and ".join(f"{rates[name]:.0f} {word}" for name, word in words if limit[name])


def _is_one_of(publishes: list[Facts]) -> Concerns:
    """Return a test of whether a channel is one of these."""
    channels = {(each["connection"], each["channel"]) for each in publishes}
    return lambda channel: (channel["connection"], channel["channel"]) in channels


def _under_limit(limit: Facts) -> OfRoute:
    """Return a test of whether a channel's publishes on a route come under a limit over several queues."""
    sort, name = limit["sort"], limit["name"]
    if sort == "node":
        return lambda channel, route: True
    if sort == "vhost":
        return lambda channel, route: bool(channel["vhost"] == name)
    if sort == "user":
        return lambda channel, route: bool(channel["user"] == name and channel["vhost"] == limit["vhost"])
    keys = pattern(limit["routing_key"])
    return lambda channel, route: (
        channel["vhost"] == limit["vhost"] and name in route["exchanges"] and keys.matches(route["routing_key"])
    )


def _slots_of(limit: Facts, powers: _Powers, present: list[Facts], gauges: Gauges) -> list[int]:
    """Return the slots of the queues to which a user publishes and that could hold it, as its channels show them."""
    concerns = _under_limit(limit)
    routes = [route for each in present for route in each["routes"] if concerns(each, route)]
    ids = {id for route in routes for id in route["queues"] if powers.could_hold(id, route)}
    found = ((slot, gauges.queue_read(slot)) for slot in gauges.queue_slots() if slot >= gauges.shards)
    return [slot for slot, gauge in found if gauge is not None and gauge.queue_id in ids]


def _depth(marks: Marks, count: int, nbytes: int) -> str:
    pairs = ((marks.stop_count, f"{count} of {marks.stop_count} messages"),
             (marks.stop_bytes, f"{nbytes} of {marks.stop_bytes} bytes"))  # fmt: skip
    return "; ".join(text for stop, text in pairs if stop)
