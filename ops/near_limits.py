"""Limits of a node that are nearly used up, read from shared memory without asking a process."""

from __future__ import annotations

import time
from typing import Any

from rich.markup import escape
from rich.table import Table

from penstock.memory.shared_counts import SharedCounts
from penstock.memory.shared_rates import SharedRates
from penstock.memory.shared_rows import Use
from penstock.node.node import Node
from penstock.text.utf8 import readable

SHOWN_MOST = 20
"""Limits shown at most: thousands of addresses may be near theirs."""


def near_limits(node: Node, queues: int) -> list[dict[str, Any]]:
    """Return {limit, whose, name, used, number} of each limit that is used to nine tenths or more, the most used first.
    `queues` is the number of queues. OSError or ValueError if the node is gone.
    """
    found = list(SharedCounts.open_readonly(node.shared_counts, node.counting).near())
    found += SharedCounts.open_readonly(node.shared_hands, node.shard_places).near()
    found += SharedRates.open_readonly(node.shared_rates).near(_rates(node), time.monotonic())
    of_node = Use("max_queues", "node", "", queues, node.settings.max_queues)
    found += [of_node] if of_node.is_near else []
    return [readable(use._asdict()) for use in sorted(found, key=_most_used_first)]


def near_table(near: list[dict[str, Any]]) -> Table:
    """Return the limits as a table, SHOWN_MOST of them at most."""
    more = len(near) - SHOWN_MOST
    title = "Limits nearly reached" + (f", and {more:,} more" if more > 0 else "")
    table = Table("limit", title=title, title_justify="left")
    table.add_column("of", overflow="fold")
    for name in ("used", "allowed"):
        table.add_column(name, justify="right")
    for row in near[:SHOWN_MOST]:
        whose = f"{row['whose']} {row['name']}".rstrip() if row["whose"] != "node" else "the node"
        table.add_row(row["limit"], escape(whose), f"{row['used']:,}", f"{row['number']:,}")
    return table


def _rates(node: Node) -> dict[str, int]:
    """Return the limits on connection rates that are set, by scope."""
    limits = node.settings.limits
    numbers = {"node": limits.connection_rate, "address": limits.address_connection_rate}
    return {whose: number for whose, number in numbers.items() if number > 0}


def _most_used_first(use: Use) -> tuple[float, str, str, str]:
    return -use.used / max(use.number, 1), use.limit, use.whose, use.name
