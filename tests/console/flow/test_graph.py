"""The picture of producers, exchanges, queues and consumers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.flow.graph import MOST, Graph, State, graph
from penstock.memory.gauges import QueueCounters, QueueGauge, QueueMarks

Facts = dict[str, Any]


def gauge(id: int, depth: int, *, saturated: bool = False, stop: int = 10) -> QueueGauge:
    return QueueGauge(
        queue_id=id, vhost="/", name=f"q{id}", ready=depth, unacked=0, ready_bytes=0, unacked_bytes=0,
        counters=QueueCounters(0, 0, 0, 0, 0, 0, 0), consumers=0, flow_epoch=0, saturated=saturated,
        saturated_since_us=0, marks=QueueMarks(stop, stop // 2, 0, 0), aside=False, lagging=False, over_count=0,
        over_bytes=0, peak_count=0, peak_bytes=0, whole_bytes=0, lent_count=0, lent_bytes=0, reserve=0, since_us=0,
        torn=False,
    )  # fmt: skip


def publisher(connection: str, queue: int, user: str = "ann", exchange: str = "shop") -> Facts:
    routes = [{"exchanges": [exchange], "routing_key": "k", "queues": [queue], "powerless": []}]
    return {
        "connection": connection, "channel": 1, "user": user, "vhost": "/", "client": "c", "peer": "p",
        "held_by": None, "held_seconds": 0.0, "parked_bytes": 0, "routes": routes,
    }  # fmt: skip


def held_by(connection: str, *causes: Facts) -> Facts:
    return {"connection": connection, "channel": 1, "causes": list(causes)}


def of_queue(id: int) -> Facts:
    return {"kind": "queue", "id": id, "slot": id, "shard": 0, "vhost": "/", "name": f"q{id}", "text": "full"}


def consumer(id: int, in_hand: int) -> Facts:
    return {
        "id": id, "acceptor": 0, "prefetch": 5, "in_hand": in_hand, "full": None, "active": True, "window_open": True,
        "settled_seconds": None, "usual_seconds": None, "whose": {"tag": f"t{id}", "connection": "0.1.9"},
    }  # fmt: skip


def states(found: Graph, column: str) -> dict[str, State]:
    return {node.label: node.state for node in found.nodes if node.column == column}


def test_only_the_saturated_way_is_lit() -> None:
    found = graph(
        [publisher("0.1.1", 1), publisher("0.1.2", 2, "bob")],
        [held_by("0.1.1", of_queue(1))],
        {1: gauge(1, 10, saturated=True), 2: gauge(2, 1)},
        {1: [consumer(4, 5), consumer(5, 0)]},
    )
    assert states(found, "producers") == {"ann": State.HELD, "bob": State.FLOWING}
    assert states(found, "queues") == {"q1": State.HELD, "q2": State.FLOWING}
    assert states(found, "consumers") == {"t4": State.CAUSE, "t5": State.FLOWING}
    lit = {(edge.origin, edge.target) for edge in found.edges.values() if edge.state is State.HELD}
    assert lit == {("producer 0", "exchange 0"), ("exchange 0", "queue 1")}


def test_a_producer_that_is_stopped_by_hand_is_shown_so() -> None:
    found = graph([publisher("0.1.1", 1)], [held_by("0.1.1", {"kind": "stop", "number": 1})], {1: gauge(1, 0)}, {})
    assert states(found, "producers") == {"ann": State.BY_HAND}
    assert {edge.state for edge in found.edges.values()} == {State.BY_HAND}


def test_alike_producers_are_one_node() -> None:
    found = graph([publisher(f"0.1.{number}", 1) for number in range(50)], [], {1: gauge(1, 9)}, {})
    (node,) = [node for node in found.nodes if node.column == "producers"]
    assert (node.count, node.detail) == (50, "50 channels")
    assert states(found, "queues") == {"q1": State.NEAR}


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30), st.sampled_from("abcdefghijklmnop")), max_size=60),
    st.sets(st.integers(1, 30)),
)
def test_no_column_is_longer_than_it_may_be_and_edges_join_nodes(
    publishes: list[tuple[int, int, str]], full: set[int]
) -> None:
    channels = [
        publisher(f"0.1.{number}", queue, user, f"x{queue % 20}") for number, (_, queue, user) in enumerate(publishes)
    ]
    held = [held_by(each["connection"], of_queue(id)) for each in channels for id in each["routes"][0]["queues"]
            if id in full]  # fmt: skip
    gauges = {id: gauge(id, id % 11, saturated=id in full) for id in range(1, 31)}
    found = graph(channels, held, gauges, {id: [consumer(id, 5)] for id in full})
    ids = [node.id for node in found.nodes]
    assert len(ids) == len(set(ids))
    for column in ("producers", "exchanges", "queues", "consumers"):
        assert len(states(found, column)) <= MOST
    assert all(edge.origin in ids and edge.target in ids for edge in found.edges.values())
    reached = {queue for _, queue, _ in publishes}
    assert found.left_out["queues"] == max(len(reached) - MOST, 0)
    wanted = {f"queue {id}" for id in full & reached}
    assert len(wanted & set(ids)) == min(len(wanted), MOST), "queues that hold producers come first"
