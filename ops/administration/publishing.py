"""Present publish rates of channels, from two readings of the counts that acceptors keep on request."""

from __future__ import annotations

import time

from console.flow.publishing import rates_between
from ops.administration.processes import Facts, Processes

WATCHED_SECONDS = 2.0


def publish_rates(processes: Processes, seconds: float = WATCHED_SECONDS) -> list[Facts]:
    """Return the publish rates of channels, by route: {connection, channel, user, vhost, …, exchanges, routing_key,
    queues, powerless (ids), messages, bytes (per second)}. Takes `seconds`.
    """
    before = _read_all(processes)
    time.sleep(seconds)
    return [row for index, earlier in enumerate(before) for row in rates_between(earlier, _read(processes, index))]


def _read_all(processes: Processes) -> list[Facts]:
    return [_read(processes, index) for index in range(processes.gauges.acceptors)]


def _read(processes: Processes, index: int) -> Facts:
    found: Facts = processes.ask("acceptor", index, "publishes")
    return found
