"""The states and transitions of life cycles, as Markdown for the pages of `docs/` that have markers for them.

<!-- states of a connection -->      names a table of `TABLES`
…                                    written by `make docs` (ops/reference.py)
<!-- end of states -->
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

from acceptor.clients.channel_stage import CHANNEL
from acceptor.clients.connection_stage import CONNECTION
from acceptor.moving.move_stage import MOVE
from acceptor.tls.tls_stage import TLS
from ops.balancer.stage import BALANCER
from penstock.bus.link_stage import LINK
from penstock.states.transitions import Transitions
from shard.moving.copy_stage import COPY
from shard.queue.deletion import DELETION
from shard.queue.dropping import DROPPING
from shard.queue.residence import RESIDENCE

TABLES: dict[str, Transitions[Any, Any]] = {
    "a connection": CONNECTION,
    "a channel": CHANNEL,
    "a TLS session": TLS,
    "a link to a shard": LINK,
    "a move at an acceptor": MOVE,
    "a queue that moves": RESIDENCE,
    "a queue's copy": COPY,
    "a queue's deletion": DELETION,
    "a limit that drops": DROPPING,
    "automatic rebalancing": BALANCER,
}
"""The tables of transitions, by the name that a page's marker gives. A further one is a line here, and markers."""

END = "<!-- end of states -->"
MARKED = re.compile(rf"<!-- states of (.+?) -->\n.*?{END}", re.DOTALL)


def names_in(page: str) -> list[str]:
    """Return the names of the tables that the text of a page has markers for."""
    return [marked[1] for marked in MARKED.finditer(page)]


def filled(page: str) -> str:
    """Return the text of a page with its tables between the markers made anew. KeyError if a name is no table's."""
    return MARKED.sub(lambda marked: f"<!-- states of {marked[1]} -->\n{_described(TABLES[marked[1]])}{END}", page)


def _described(transitions: Transitions[Any, Any]) -> str:
    states = list(transitions.table)
    source = type(states[0]).__module__.replace(".", "/")
    return "\n".join([
        f"<!-- Made by `make docs` from {source}.py: change it there. -->\n",
        "| state | meaning |",
        "| --- | --- |",
        *(f"| *{_name(state)}* | {state.value} |" for state in states),
        "",
        "| event | in | leads to |",
        "| --- | --- | --- |",
        *_rows(transitions),
        "\n",
    ])  # fmt: skip


def _rows(transitions: Transitions[Any, Any]) -> Iterator[str]:
    """Yield a row for each event and state that it leads to, with all states in which it does; events in order."""
    found: dict[tuple[Enum, Enum], list[str]] = {}
    for state, following in transitions.table.items():
        for event, then in following.items():
            found.setdefault((event, then), []).append(f"*{_name(state)}*")
    order = {event: number for number, event in enumerate(type(next(iter(found))[0]))}
    for event, then in sorted(found, key=lambda each: order[each[0]]):
        yield f"| {event.value} | {', '.join(found[event, then])} | *{_name(then)}* |"


def _name(state: Enum) -> str:
    return state.name.lower().replace("_", "-")
