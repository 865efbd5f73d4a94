"""Limits on declarations: the arguments of one, and the topology as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.bus import pack
from router.authority.extent import RECORD, Bounds, Usage, bytes_of, topology_limit
from router.authority.operations import Outcome
from router.core import for_replicas
from tests.router.making import Asked

FAT = {"x-note": "x" * 20_000}
DECLARATIONS: list[tuple[str, dict[str, Any]]] = [
    ("queue_declare", {"name": "new"}),
    ("exchange_declare", {"name": "new", "type": "topic"}),
    ("queue_bind", {"queue": "q", "source": "amq.topic", "key": "k"}),
    ("exchange_bind", {"destination": "amq.fanout", "source": "amq.topic", "key": "k"}),
]


@pytest.fixture
def asked() -> Asked:
    asked = Asked()
    asked.done("queue_declare", name="q")
    return asked


@pytest.mark.parametrize(("operation", "arguments"), DECLARATIONS)
def test_arguments_of_a_declaration_are_bounded(asked: Asked, operation: str, arguments: dict[str, Any]) -> None:
    code, text = asked.refused(operation, **arguments, arguments=FAT)
    nbytes = len(pack(FAT))
    assert code == 406
    assert text.endswith(f" has {nbytes} bytes of arguments, more than 16384 (amqp.max_arguments_bytes)")
    asked.done(operation, **arguments, arguments={"x-note": "x" * 16_000})


@pytest.mark.parametrize(("operation", "arguments"), DECLARATIONS)
def test_a_full_topology_takes_nothing_new(asked: Asked, operation: str, arguments: dict[str, Any]) -> None:
    asked.done("queue_declare", name="old", arguments={"x-note": "x" * 5000})
    asked.done("queue_bind", queue="old", source="amq.topic", key="k")
    held = asked.authority.ledger.usage.nbytes
    asked.authority.bounds = Bounds(topology=held)
    code, text = asked.refused(operation, **arguments)
    assert code == 406 and text.startswith("cannot declare ")
    assert text.endswith(f"exchanges and bindings of the node take {held} bytes, of {held} (max_topology_bytes)")
    asked.done("queue_declare", name="old")
    asked.done("queue_bind", queue="old", source="amq.topic", key="k")
    asked.done("queue_delete", queue_id=asked.topology.queue("/", "old").queue_id)  # type: ignore[union-attr]
    asked.done(operation, **arguments)


@pytest.mark.parametrize(("operation", "arguments"), DECLARATIONS)
def test_a_user_may_take_a_share_and_others_declare_on(asked: Asked, operation: str, arguments: dict[str, Any]) -> None:
    asked.done("queue_declare", name="mine", user="mallory", arguments={"x-note": "x" * 5000})
    asked.done("exchange_declare", name="mine", user="mallory")
    asked.done("queue_bind", queue="mine", source="amq.topic", user="mallory")
    taken = asked.authority.ledger.usage
    own = taken.made["mallory"]
    asked.authority.bounds = Bounds(topology=2 * taken.nbytes, of_user=own)
    code, text = asked.refused(operation, **arguments, user="mallory")
    assert code == 406 and text.startswith("cannot declare ")
    assert text.endswith(f"exchanges and bindings of user 'mallory' take {own} bytes, of {own} (user_topology_percent)")
    asked.done("queue_declare", name="mine", user="mallory")
    asked.done("queue_bind", queue="mine", source="amq.topic", user="mallory")
    asked.done(operation, **arguments)
    asked.done("queue_delete", queue_id=asked.topology.queue("/", "mine").queue_id)  # type: ignore[union-attr]
    asked.done("exchange_delete", name="mine")
    assert "mallory" not in taken.made
    asked.done("exchange_declare", name="again", user="mallory")


def test_what_no_user_has_made_is_nobodys_share(asked: Asked) -> None:
    taken = asked.authority.ledger.usage
    assert taken.made[None] > 0
    asked.authority.bounds = Bounds(topology=2 * taken.nbytes, of_user=1)
    asked.done("queue_declare", name="new", user=None)


names = st.sampled_from(["a", "b", "queue-c"])
keys = st.sampled_from(["", "k", "a.longer.key"])
users = st.sampled_from(["guest", "bob", None])
tables = st.sampled_from([{}, {"x-max-length": 3}, {"x-note": "x" * 500}, {"x-match": "all", "h": 1}])


@settings(max_examples=80)
@given(st.lists(st.tuples(st.sampled_from(["queue", "exchange", "bind", "unbind", "gone", "away", "policy"]), names,
                          names, keys, tables, users), max_size=30))  # fmt: skip
def test_what_is_counted_is_what_is_there(steps: list[tuple[str, str, str, str, dict[str, Any], str | None]]) -> None:
    """The count stays exact for all that is declared, bound, governed and deleted, and for all that goes along."""
    asked = Asked()
    empty = asked.authority.ledger.usage.nbytes
    for step, name, other, key, table, user in steps:
        queue = asked.topology.queue("/", name)
        if step == "queue":
            asked.ask("queue_declare", name=name, arguments=table, user=user)
        elif step == "exchange":
            asked.ask("exchange_declare", name=other, type="headers", auto_delete=True, arguments=table, user=user)
        elif step == "bind":
            asked.ask("queue_bind", queue=name, source=other, key=key, arguments=table, user=user)
        elif step == "unbind":
            asked.ask("queue_unbind", queue=name, source=other, key=key, arguments=table)
        elif step == "gone" and queue is not None:
            asked.done("queue_delete", queue_id=queue.queue_id)
        elif step == "away":
            asked.ask("exchange_delete", name=other)
        elif step == "policy":
            facts = {"vhost": "/", "operator": False, "name": "p", "apply_to": "queues", "priority": 0}
            asked.command("policy_set", pattern=name, definition={"max-length": len(key) + 1}, **facts)
        assert asked.authority.ledger.usage.made == Usage(asked.topology).made
    for queue in list(asked.topology.queues()):
        asked.done("queue_delete", queue_id=queue.queue_id)
    for exchange in ("a", "b", "queue-c"):
        asked.ask("exchange_delete", name=exchange)
    assert asked.authority.ledger.usage.nbytes == empty


def test_a_later_incarnation_counts_what_was_stored(asked: Asked) -> None:
    asked.done("queue_bind", queue="q", source="amq.topic", key="k", arguments={"x": "y" * 100})
    before = asked.authority.ledger.usage.made
    asked.start_again(version=1)
    assert asked.authority.ledger.usage.made == before and before["guest"] > 2 * RECORD


def test_replicas_are_not_told_what_says_nothing() -> None:
    asked = Asked()
    asked.done("queue_declare", name="q", arguments={"x-max-length": 9, "x-note": "n" * 9000})
    asked.done("exchange_declare", name="e", type="direct", arguments={"alternate-exchange": "a", "x-note": "n"})
    queue, exchange = asked.topology.queue("/", "q"), asked.topology.exchange("/", "e")
    assert queue is not None and exchange is not None
    assert for_replicas(queue.change())[9] == {"x-max-length": 9} != queue.arguments
    assert (
        for_replicas(queue.change())[:9] == queue.change()[:9]
        and for_replicas(queue.change())[10:] == queue.change()[10:]
    )
    assert for_replicas(exchange.change())[7] == {"alternate-exchange": "a"}
    assert bytes_of(queue) > 9000
    plain = ["binding", "/", "amq.topic", "queue", "q", "k", {"x-note": "n"}]
    assert for_replicas(plain) is plain


def test_unless_said_all_copies_take_a_quarter_of_the_memory() -> None:
    assert topology_limit(0, 8 << 30, 5) * 5 * 4 == pytest.approx(8 << 30, rel=1e-6)
    assert topology_limit(1 << 20, 8 << 30, 5) == 1 << 20


def test_outcomes_are_refusals_of_the_declaration_alone(asked: Asked) -> None:
    """Nothing of the refused declaration stays, and the next one is accepted."""
    before = asked.authority.ledger.usage.nbytes
    outcome = asked.ask("queue_declare", name="fat", arguments=FAT)
    assert isinstance(outcome, Outcome) and outcome.error is not None
    assert asked.topology.queue("/", "fat") is None and asked.authority.ledger.usage.nbytes == before
    asked.done("queue_declare", name="fat")
