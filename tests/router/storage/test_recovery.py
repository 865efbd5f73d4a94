"""Recovery of a ledger from the store: queues stay where they are if possible."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.limits.features import QueueFeatures
from penstock.limits.queue_limits import asked_limits
from penstock.limits.watermarks import FlowDefaults, Marks, QueueLimits
from router.model.placement import place
from router.model.records import Placement
from router.storage.recovery import TooManyQueues, recover
from router.storage.store import Stored

BASE: list[list[Any]] = [["vhost", "/"], ["exchange", "/", "x", "fanout", True, False, False, {}]]
FEATURES = QueueFeatures().to_wire()
LIMITS = asked_limits({}, FlowDefaults()).to_wire()


def stored(*queues: list[Any], more: tuple[Any, ...] = ()) -> Stored:
    bindings = [["binding", "/", "x", "queue", queue[2], "", {}] for queue in queues]
    return Stored(5, 40, b"key", [*BASE, *queues, *bindings, *more], True)


def queue(name: str, queue_id: int, slot: int, shard: int, limits: list[Any] = LIMITS, **arguments: Any) -> list[Any]:
    return ["queue", "/", name, queue_id, slot, shard, True, False, None, arguments, limits, FEATURES]


def test_nothing_to_change() -> None:
    ledger = recover(stored(queue("a", 1, 4, 0), queue("b", 2, 2, 1)), range(2), 2, 5, FlowDefaults())
    assert ledger.take_steps() == []
    assert ledger.topology.version == 5
    assert [found.name for found in ledger.topology.route("/", "x", "")] == ["a", "b"]
    assert ledger.next_queue_id() == 41
    assert sorted(ledger.take_slot(0) or 0 for _ in range(3)) == [3, 5, 6]
    assert ledger.take_slot(0) is None


def test_new_slots_in_a_new_epoch() -> None:
    ledger = recover(stored(queue("a", 1, -1, 0), queue("b", 2, -1, 1)), range(2), 2, 5, FlowDefaults())
    assert sorted(found.slot for found in ledger.topology.queues()) == [2, 3]
    assert [step.change[3] for step in ledger.take_steps()] == [1, 2]


def test_slots_that_the_node_no_longer_has() -> None:
    """It has more shards, whose slots come first, or fewer queues than before."""
    ledger = recover(
        stored(queue("a", 1, 2, 0), queue("b", 2, 4, 1), queue("c", 3, 9, 0)), range(2), 3, 5, FlowDefaults()
    )
    slots = {found.name: found.slot for found in ledger.topology.queues()}
    assert slots["b"] == 4
    assert sorted(slots.values()) == [4, 5, 6]
    assert [step.change[2] for step in ledger.take_steps()] == ["a", "c"]


def test_a_slot_that_a_shard_has_still_open_is_no_new_queues() -> None:
    """The router died after it deleted the slot's queue: the shard closes the slot when it learns of that."""
    ledger = recover(stored(queue("a", 1, 2, 0)), range(2), 2, 5, FlowDefaults(), {2, 3})
    assert [ledger.take_slot(0) for _ in range(5)] == [4, 5, 6, 3, None]


def test_a_shard_that_is_no_more() -> None:
    queues = [queue(f"q{number}", number, -1, number % 4) for number in range(20)]
    ledger = recover(stored(*queues, more=(["placement", "/", "q3", 1],)), range(2), 2, 20, FlowDefaults())
    for found in ledger.topology.queues():
        old = found.queue_id % 4
        expected = old if old < 2 else place("/", found.name, range(2), {("/", "q3"): Placement("/", "q3", 1)})
        assert found.shard == expected
    assert all(step.durable for step in ledger.take_steps())


def test_limits_follow_the_settings() -> None:
    ledger = recover(stored(queue("a", 1, 4, 0)), range(2), 2, 5, FlowDefaults(max_count=100))
    (step,) = ledger.take_steps()
    assert step.change[10][0] == 100


def test_marks_that_no_longer_go_with_the_settings_are_adapted() -> None:
    arguments: dict[str, Any] = {"x-max-length": 100, "x-overflow": "flow", "qpid.flow_resume_count": 75}
    limits = asked_limits(arguments, FlowDefaults()).to_wire()
    ledger = recover(stored(queue("a", 1, 4, 0, limits, **arguments)), range(2), 2, 5, FlowDefaults(stop_percent=70))
    found = ledger.topology.queue("/", "a")
    assert found and QueueLimits.from_wire(found.limits).marks == Marks(70, 70)


def test_policies_go_on_governing() -> None:
    policy = ["policy", "/", False, "bounds", "^a", "queues", 0, {"max-length": 5}]
    changes = stored(queue("a", 1, 4, 0), queue("b", 2, 5, 0))
    changes.changes.insert(1, policy)
    ledger = recover(changes, range(2), 2, 5, FlowDefaults(max_count=100))
    limits = {found.name: (found.limits[0], found.policy) for found in ledger.topology.queues()}
    assert limits == {"a": (5, "bounds"), "b": (100, None)}
    assert policy in list(ledger.topology.changes())


def test_more_queues_than_there_may_be() -> None:
    with pytest.raises(TooManyQueues, match="2 queues are stored, max_queues is 1"):
        recover(stored(queue("a", 1, -1, 0), queue("b", 2, -1, 1)), range(2), 2, 1, FlowDefaults())


def test_features_of_queues_from_before_there_were_any() -> None:
    ledger = recover(stored([*queue("a", 1, 4, 0, **{"x-message-ttl": 5})[:-1], []]), range(2), 2, 5, FlowDefaults())
    (step,) = ledger.take_steps()
    assert QueueFeatures.from_wire(step.change[11]) == QueueFeatures(message_ttl=5)


def test_arguments_are_in_memory_once() -> None:
    """The topology and the store share the arguments that were read; copies would all be in memory at once."""
    change = queue("q", 1, -1, 0, text="of some length")
    ledger = recover(stored(change), range(2), 2, 5, FlowDefaults())
    (step,) = ledger.take_steps()
    found = ledger.topology.queue("/", "q")
    assert found is not None
    assert found.arguments is change[9] is step.change[9]
