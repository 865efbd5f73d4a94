"""Producers, exchanges, queues and consumers as a picture of four columns, with what is saturated lit.

A column has at most `MOST` nodes: queues that hold producers come first, then the fullest. Producers that are alike
(the same user, the same routes, held or not) are one node with a count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from console.flow.chain import state_of
from penstock.memory.gauges import QueueGauge
from penstock.text.durations import shown

Facts = dict[str, Any]

MOST = 12
"""Nodes of a column."""
NEAR = 0.9
"""The part of its stop mark from which a queue is near it."""
DEFAULT = "(default)"


class State(StrEnum):
    """The state of a node or an edge."""

    FLOWING = "flowing"
    NEAR = "near"
    HELD = "held"
    BY_HAND = "by-hand"
    CAUSE = "cause"


@dataclass(slots=True)
class Node:
    """A node: its column, label, and what it says; `count` is the number of channels or consumers that it stands for,
    `vhost` that of an exchange or a queue.
    """

    id: str
    column: str
    label: str
    detail: str
    state: State
    count: int = 1
    vhost: str | None = None


class Edge(NamedTuple):
    """An edge between two nodes, by their ids."""

    origin: str
    target: str
    state: State


class Group(NamedTuple):
    """The common facts of the producers of one node."""

    user: str
    vhost: str
    state: State
    routes: tuple[tuple[str, int], ...]


@dataclass(slots=True)
class Graph:
    """The picture; `left_out` counts what each column does not show."""

    nodes: list[Node] = field(default_factory=list)
    edges: dict[tuple[str, str], Edge] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)

    def join(self, origin: str, target: str, state: State) -> None:
        """Add an edge; of two between the same nodes the one that is not flowing stays."""
        known = self.edges.get((origin, target))
        if known is None or known.state is State.FLOWING:
            self.edges[origin, target] = Edge(origin, target, state)

    def facts(self) -> Facts:
        """Return the picture, fit for JSON."""
        return {
            "nodes": [asdict(node) for node in self.nodes],
            "edges": [{"from": edge.origin, "to": edge.target, "state": edge.state} for edge in self.edges.values()],
            "left_out": self.left_out,
        }


def graph(
    publishing: Iterable[Facts],
    held: Iterable[Facts],
    queues: Mapping[int, QueueGauge],
    consumers: Mapping[int, list[Facts]],
) -> Graph:
    """Return the picture of the channels that publish (`acceptor.holding.publishing_channels`), those of them that are
    held (`acceptor.questions`), the gauges of their queues by id, and the consumers of queues by id
    (`console.flow.chain.Situation`).
    """
    made = Graph()
    groups, held_queues = _groups(list(publishing), list(held))
    reached = {id for group in groups for _, id in group.routes if id in queues}
    shown_queues = sorted(reached, key=lambda id: _place(queues[id], id in held_queues))[:MOST]
    made.left_out["queues"] = len(reached) - len(shown_queues)
    for id in shown_queues:
        made.nodes.append(_queue_node(id, queues[id], id in held_queues))
    _add_producers(made, groups, set(shown_queues), held_queues)
    _add_consumers(made, consumers, [id for id in shown_queues if id in held_queues or id in consumers], held_queues)
    return made


def _groups(publishing: list[Facts], held: list[Facts]) -> tuple[dict[Group, list[Facts]], set[int]]:
    """Return alike channels by their group, and the queues that hold channels."""
    causes = {(each["connection"], each["channel"]): each["causes"] for each in held}
    held_queues = {cause["id"] for each in causes.values() for cause in each if cause["kind"] == "queue"}
    groups: dict[Group, list[Facts]] = {}
    for channel in publishing:
        routes = {(route["exchanges"][0], id) for route in channel["routes"] for id in route["queues"]}
        state = _state_of_channel(causes.get((channel["connection"], channel["channel"])))
        group = Group(channel["user"], channel["vhost"], state, tuple(sorted(routes)))
        groups.setdefault(group, []).append(channel)
    return groups, held_queues


def _state_of_channel(causes: list[Facts] | None) -> State:
    if not causes:
        return State.FLOWING
    return State.BY_HAND if all(cause["kind"] == "stop" for cause in causes) else State.HELD


def _place(queue: QueueGauge, holds: bool) -> tuple[bool, float, str, str]:
    return not holds, -_fullness(queue), queue.vhost, queue.name


def _fullness(queue: QueueGauge) -> float:
    """Return how near a queue is to its stop mark: 1 at the mark; 0 without one."""
    marks = queue.marks
    by_count = (queue.ready + queue.unacked) / marks.stop_count if marks.stop_count else 0.0
    by_bytes = queue.whole_bytes / marks.stop_bytes if marks.stop_bytes else 0.0
    return max(by_count, by_bytes)


def _queue_node(id: int, queue: QueueGauge, holds: bool) -> Node:
    depth, stop = queue.ready + queue.unacked, queue.marks.stop_count
    near = State.NEAR if _fullness(queue) >= NEAR else State.FLOWING
    detail = f"{depth} of {stop}" if stop else f"{depth}"
    state = State.HELD if holds or queue.saturated else near
    return Node(f"queue {id}", "queues", queue.name, detail, state, vhost=queue.vhost)


def _exchange_node(number: int, vhost: str, name: str) -> Node:
    return Node(f"exchange {number}", "exchanges", name or DEFAULT, vhost, State.FLOWING, vhost=vhost)


def _add_producers(
    made: Graph, groups: dict[Group, list[Facts]], shown_queues: set[int], held_queues: set[int]
) -> None:  # fmt: skip
    reaching = [group for group in groups if any(id in shown_queues for _, id in group.routes)]
    reaching.sort(key=lambda group: (group.state is State.FLOWING, -len(groups[group]), group.user, group.vhost))
    made.left_out["producers"] = sum(len(groups[group]) for group in reaching[MOST:])
    exchanges: dict[tuple[str, str], Node] = {}
    for number, group in enumerate(reaching[:MOST]):
        channels = groups[group]
        longest = max(channel["held_seconds"] for channel in channels)
        what = channels[0]["connection"] if len(channels) == 1 else f"{len(channels)} channels"
        detail = what if group.state is State.FLOWING else f"{what}, held for {shown(longest)}"
        producer = Node(f"producer {number}", "producers", group.user, detail, group.state, len(channels))
        made.nodes.append(producer)
        for exchange, id in group.routes:
            if id not in shown_queues:
                continue
            key = group.vhost, exchange
            if key not in exchanges and len(exchanges) >= MOST:
                continue
            through = exchanges.get(key) or exchanges.setdefault(
                key, _exchange_node(len(exchanges), group.vhost, exchange)
            )
            lit = group.state if group.state is State.BY_HAND or id in held_queues else State.FLOWING
            made.join(producer.id, through.id, lit)
            made.join(through.id, f"queue {id}", lit)
    made.nodes += exchanges.values()


def _add_consumers(
    made: Graph, consumers: Mapping[int, list[Facts]], ids: list[int], held_queues: set[int]
) -> None:  # fmt: skip
    added = 0
    for id in ids:
        found = sorted(consumers.get(id, ()), key=lambda each: -(each["settled_seconds"] or float("inf")))
        for consumer in found:
            if added == MOST:
                made.left_out["consumers"] = made.left_out.get("consumers", 0) + 1
                continue
            added += 1
            whose = consumer["whose"]
            label = whose["tag"] if whose is not None else "basic.get"
            state = State.CAUSE if id in held_queues and _is_stuck(consumer) else State.FLOWING
            node = Node(f"consumer {id} {consumer['id']}", "consumers", label, state_of(consumer), state)
            made.nodes.append(node)
            made.join(f"queue {id}", node.id, state)


def _is_stuck(consumer: Facts) -> bool:
    """Whether a consumer can be sent no more until its client does something."""
    full = bool(consumer["prefetch"]) and consumer["in_hand"] >= consumer["prefetch"]
    return full or bool(consumer["full"]) or not consumer["active"] or not consumer["window_open"]
