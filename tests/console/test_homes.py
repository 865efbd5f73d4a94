"""The places of queues, as the console follows the topology."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.homes import Home, Homes
from router.model.records import Queue
from router.model.topology import Topology


def declared(id: int, name: str = "q", shard: int = 0, policy: str | None = None) -> list[Any]:
    return Queue("/", name, id, 5, shard, True, False, None, {}, [], [], policy).change()


def gone(id: int, name: str = "q") -> list[Any]:
    return ["queue_gone", "/", name, id]


def test_a_snapshot_replaces_all_that_was_known() -> None:
    homes = Homes()
    homes.load([["vhost", "/"], declared(1, shard=2, policy="p"), ["shard", 2, "serving"]])
    assert homes.by_id == {1: Home(2, "p", "/", "q")}
    homes.load([declared(2, "\udcff")])
    assert homes.by_id == {2: Home(0, None, "/", "\udcff")}


def test_a_queue_that_moves_or_is_governed_anew_has_its_new_place() -> None:
    homes = Homes()
    homes.apply([declared(1)])
    homes.apply([declared(1, shard=1), ["binding", "/", "x", "queue", "q", "", {}, None]])
    assert homes.by_id == {1: Home(1, None, "/", "q")}
    homes.apply([declared(1, shard=1, policy="p")])
    assert homes.by_id[1].policy == "p"


def test_a_queue_that_was_never_known_may_be_deleted() -> None:
    homes = Homes()
    homes.apply([gone(7), declared(1), gone(8)])
    assert homes.by_id.keys() == {1}


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 4), st.integers(0, 2)), max_size=30))
def test_the_places_are_those_of_the_topology(steps: list[tuple[bool, int, int]]) -> None:
    topology, homes = Topology(1, [["vhost", "/"]]), Homes()
    for there, id, shard in steps:
        name = f"q{id}"
        if not there and topology.queue("/", name) is None:
            continue
        change = declared(id, name, shard) if there else gone(id, name)
        topology.apply(change)
        homes.apply([change])
    assert {id: (home.name, home.shard) for id, home in homes.by_id.items()} == {
        queue.queue_id: (queue.name, queue.shard) for queue in topology.queues()
    }
