"""Removals: dependent records go along, in an order that every follower can apply."""

from __future__ import annotations

import pytest

from router.authority.ledger import Ledger, Step
from router.authority.slots import Slots
from router.model.records import Binding, Exchange, Queue
from router.model.topology import Topology


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger(Topology(), Slots(range(1, 3), ()), 41)
    ledger.record(["vhost", "/"], durable=True)
    for name, auto_delete in (("x", True), ("y", False)):
        ledger.add_exchange(Exchange("/", name, "fanout", False, auto_delete, False, {}))
    slot = ledger.take_slot(0)
    assert slot is not None
    ledger.add_queue(Queue("/", "q", ledger.next_queue_id(), slot, 0, True, False, None, {}, [], []))
    ledger.bind(Binding("/", "x", "queue", "q", "", {}))
    ledger.bind(Binding("/", "y", "exchange", "x", "", {}))
    ledger.take_steps()
    return ledger


def test_steps_are_taken_once(ledger: Ledger) -> None:
    ledger.record(["vhost", "v"], durable=True)
    assert ledger.take_steps() == [Step(["vhost", "v"], True)]
    assert ledger.take_steps() == []


def test_a_queue_with_all_that_follows(ledger: Ledger) -> None:
    queue = ledger.topology.queue("/", "q")
    assert queue is not None and queue.queue_id == 42
    ledger.remove_queue(queue)
    assert ledger.take_steps() == [
        Step(["binding_gone", "/", "x", "queue", "q", "", {}], False),
        Step(["queue_gone", "/", "q", 42], True),
        Step(["binding_gone", "/", "y", "exchange", "x", "", {}], False),
        Step(["exchange_gone", "/", "x"], False),
    ]
    assert (ledger.take_slot(0), ledger.take_slot(0), ledger.take_slot(0)) == (1, 2, None)
    assert (ledger.queues_made, ledger.queues_removed) == (1, 1)
    assert ledger.next_queue_id() == 43


def test_bind_and_unbind_again(ledger: Ledger) -> None:
    binding = Binding("/", "y", "queue", "q", "k", {})
    ledger.bind(binding)
    ledger.bind(binding)
    ledger.unbind(binding)
    ledger.unbind(binding)
    assert [step.change[0] for step in ledger.take_steps()] == ["binding", "binding_gone"]


def test_a_binding_becomes_that_of_who_may_grant_it(ledger: Ledger) -> None:
    """The binding is remade by a user who may write to the exchange; by no other, nor if it already grants power."""
    ledger.record(["permission", "guest", "/", "", ".*", ".*"], durable=True)
    ledger.take_steps()
    first, other, granting = (Binding("/", "y", "queue", "q", "k", {}, maker) for maker in ("ann", "bob", "guest"))
    for binding in (first, other, granting, other):
        ledger.bind(binding)
    assert [step.change[0] for step in ledger.take_steps()] == ["binding", "binding_gone", "binding"]
    found = ledger.topology.binding(first)
    assert found is not None and found.maker == "guest"
    assert set(ledger.topology.makers("/", "y")) == {None, "guest"}
