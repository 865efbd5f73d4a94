"""Held channels of a running node, and the rates at which queues drain."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ops.administration.processes import Facts, Processes
from ops.rates import rates
from penstock.text.durations import shown

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


def on_rung(rung: Facts) -> str:
    """Describe the rung of its ladder that a channel is on."""
    words = f"on rung {rung['name']} for {shown(rung['seconds'])}"
    return words if rung["next_in"] is None else f"{words}, {rung['next']} in {shown(rung['next_in'])}"


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
