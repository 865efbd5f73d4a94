"""Limits of a node that are nearly used up, read from shared memory without asking a process."""

from __future__ import annotations

import time
from typing import Any

from ops.running import Running
from penstock.memory.shared_counts import SharedCounts
from penstock.memory.shared_rates import SharedRates
from penstock.memory.shared_rows import Use
from penstock.text.utf8 import readable


def near_limits(node: Running, queues: int) -> list[dict[str, Any]]:
    """Return {limit, whose, name, used, number} of each limit that is used to nine tenths or more, the most used first.
    `queues` is the number of queues. OSError or ValueError if the node is gone.
    """
    found = list(SharedCounts.open_readonly(node.shared_counts, node.counting).near())
    found += SharedCounts.open_readonly(node.shared_hands, node.shard_places).near()
    found += SharedRates.open_readonly(node.shared_rates).near(_rates(node), time.monotonic())
    of_node = Use("max_queues", "node", "", queues, node.settings["max_queues"])
    found += [of_node] if of_node.is_near else []
    return [readable(use._asdict()) for use in sorted(found, key=_most_used_first)]


def _rates(node: Running) -> dict[str, int]:
    """Return the limits on connection rates that are set, by scope."""
    limits = node.settings["limits"]
    numbers = {"node": limits["connection_rate"], "address": limits["address_connection_rate"]}
    return {whose: number for whose, number in numbers.items() if number > 0}


def _most_used_first(use: Use) -> tuple[float, str, str, str]:
    return -use.used / max(use.number, 1), use.limit, use.whose, use.name
