"""Held channels of a running node, and the rates at which queues drain."""

from __future__ import annotations

import time
from collections.abc import Iterable

from console.flow.chain import Situation, by_acceptor, queues_of, with_owners
from console.flow.rates import rates
from ops.administration.processes import Facts, Processes

SAMPLE_SECONDS = 1.0
"""How long queues are watched to measure how fast they drain."""


def held(processes: Processes) -> list[Facts]:
    """Return the held channels (`acceptor.questions`), the longest held first."""
    return sorted(processes.ask_acceptors("held"), key=lambda held: -held["held_seconds"])


def unread(processes: Processes) -> list[Facts]:
    """Return the connections that are not read, as the broker keeps too much for them (`acceptor.budgets.unread`),
    longest unread first.
    """
    return sorted(processes.ask_acceptors("unread"), key=lambda unread: -unread["unread_seconds"])


def drained(processes: Processes, slots: Iterable[int]) -> dict[int, Facts]:
    """Return the `rates` of queues, by slot. Takes SAMPLE_SECONDS."""
    before = {slot: processes.gauges.queue_read(slot) for slot in slots}
    if not before:
        return {}
    began = time.monotonic()
    time.sleep(SAMPLE_SECONDS)
    seconds = time.monotonic() - began
    found = {}
    for slot, earlier in before.items():
        now = processes.gauges.queue_read(slot)
        if earlier is not None and now is not None and earlier.queue_id == now.queue_id:
            found[slot] = rates(earlier, now, seconds)
    return found


def situation(processes: Processes) -> Situation:
    """Return what is held at present; consumers are asked for as they are looked at. Takes SAMPLE_SECONDS."""
    channels = held(processes)
    slots = {cause["slot"] for cause in queues_of(channels).values()}
    return Situation(
        channels, unread(processes), drained(processes, slots), lambda cause: _consumers(processes, cause)
    )  # fmt: skip


def _consumers(processes: Processes, cause: Facts) -> list[Facts]:
    """Return the consumers of a queue, with the facts that acceptors have of them."""
    found = processes.ask("shard", cause["shard"], "consumers", id=cause["id"])
    answers = (processes.ask("acceptor", index, "consumers", ids=ids) for index, ids in by_acceptor(found).items())
    return with_owners(found, answers)
