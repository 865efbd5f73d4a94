"""Routing over the whole topology, and replicas that follow it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.model.hashing import CONSISTENT_HASH
from router.model.kinds import KINDS
from router.model.record_kind import Change
from router.model.topology import COUNTERS, Topology
from tests.router.making import ME, Asked
from tests.router.model.test_matching import NAIVE
from tests.router.naive_choice import naive_choice
from tests.router.strategies import header_arguments, headers, topics

EXCHANGES = ["w", "x", "y", "z"]
QUEUES = ["one", "two", "three"]


@pytest.fixture
def asked() -> Asked:
    asked = Asked()
    for name in QUEUES:
        asked.done("queue_declare", name=name)
    return asked


def names(asked: Asked, exchange: str, key: str = "", properties: Any = None) -> list[str]:
    return sorted(queue.name for queue in asked.topology.route("/", exchange, key, properties))


def declare(asked: Asked, *names: str, kind: str = "fanout", **arguments: Any) -> None:
    for name in names:
        asked.done("exchange_declare", name=name, type=kind, **arguments)


def test_default_exchange(asked: Asked) -> None:
    assert names(asked, "", "one") == ["one"]
    assert names(asked, "", "no") == []


def test_what_is_not_there(asked: Asked) -> None:
    assert names(asked, "no", "one") == []
    assert asked.topology.route("no", "amq.direct", "one") == ()
    assert asked.topology.exchange("no", "amq.direct") is None
    assert asked.topology.queue("no", "one") is None
    assert asked.topology.queue_by_id(99) is None
    assert not asked.topology.property_indexes("no", "amq.headers")
    assert not asked.topology.property_indexes("/", "no")


def test_a_queue_once_however_many_ways_lead_to_it(asked: Asked) -> None:
    declare(asked, "a", "b", "c")
    for source, destination in (("a", "b"), ("a", "c"), ("b", "c"), ("c", "a")):
        asked.done("exchange_bind", source=source, destination=destination)
    for source in ("a", "b", "c"):
        asked.done("queue_bind", source=source, queue="one", key=source)
        asked.done("queue_bind", source=source, queue="one", key="again")
    for source in ("a", "b", "c"):
        assert names(asked, source) == ["one"]


def test_internal_exchanges_route_on(asked: Asked) -> None:
    declare(asked, "outer")
    declare(asked, "inner", internal=True)
    asked.done("exchange_bind", source="outer", destination="inner")
    asked.done("queue_bind", source="inner", queue="two")
    assert names(asked, "outer") == ["two"]


class TestAlternateExchange:
    """An alternate exchange gets the messages that no binding of its exchange matches."""

    def test_only_then(self, asked: Asked) -> None:
        declare(asked, "alternate")
        declare(asked, "x", kind="direct", arguments={"alternate-exchange": "alternate"})
        asked.done("queue_bind", source="x", queue="one", key="known")
        asked.done("queue_bind", source="alternate", queue="two")
        assert names(asked, "x", "known") == ["one"]
        assert names(asked, "x", "unknown") == ["two"]

    def test_a_binding_that_leads_nowhere_is_a_binding(self, asked: Asked) -> None:
        declare(asked, "alternate", "dead end")
        declare(asked, "x", kind="direct", arguments={"alternate-exchange": "alternate"})
        asked.done("exchange_bind", source="x", destination="dead end", key="k")
        asked.done("queue_bind", source="alternate", queue="two")
        assert names(asked, "x", "k") == []

    def test_chains_and_cycles(self, asked: Asked) -> None:
        for name, alternate in (("x", "y"), ("y", "z"), ("z", "x")):
            declare(asked, name, kind="direct", arguments={"alternate-exchange": alternate})
        assert names(asked, "x", "k") == []
        asked.done("queue_bind", source="z", queue="three", key="k")
        assert names(asked, "x", "k") == ["three"]

    def test_missing_or_default(self, asked: Asked) -> None:
        declare(asked, "x", arguments={"alternate-exchange": "no"})
        declare(asked, "y", arguments={"alternate-exchange": ""})
        assert names(asked, "x", "one") == []
        assert names(asked, "y", "one") == ["one"]


class TestHeaders:
    """Headers are decoded only where they count."""

    def test_as_a_map_and_as_a_function(self, asked: Asked) -> None:
        asked.done("queue_bind", source="amq.headers", queue="one", arguments={"a": 1})
        assert names(asked, "amq.headers", "", {"headers": {"a": 1}}) == ["one"]
        assert names(asked, "amq.headers", "", lambda: {"headers": {"a": 1}}) == ["one"]
        assert names(asked, "amq.headers", "", {"headers": {"a": True}}) == []
        assert names(asked, "amq.headers", "", None) == []

    def test_asked_for_once_and_not_in_vain(self, asked: Asked) -> None:
        calls = []

        def decode() -> dict[str, object]:
            calls.append(1)
            return {}

        declare(asked, "x")
        for destination in ("amq.headers", "amq.match"):
            asked.done("exchange_bind", source="x", destination=destination)
        names(asked, "amq.topic", "k", decode)
        assert not calls
        names(asked, "x", "", decode)
        assert len(calls) == 1

    def test_property_indexes(self, asked: Asked) -> None:
        declare(asked, "x", "y", "loop")
        declare(asked, "z", arguments={"alternate-exchange": "amq.match"})
        for source, destination in (("x", "y"), ("y", "x"), ("y", "amq.headers"), ("loop", "loop")):
            asked.done("exchange_bind", source=source, destination=destination)
        depends = [name for name in ("x", "y", "z", "loop", "amq.headers", "amq.topic", "")
                   if asked.topology.property_indexes("/", name)]  # fmt: skip
        assert depends == ["x", "y", "z", "amq.headers"]
        asked.done("exchange_unbind", source="y", destination="amq.headers")
        assert not asked.topology.property_indexes("/", "x")


def naive_route(topology: Topology, exchange: str, key: str, headers: dict[str, Any]) -> set[str]:
    """Return queues reached by following matching bindings, each checked by itself, until nothing new is reached."""
    reached: set[tuple[str, str]] = {("exchange", exchange)}
    while True:
        more = set(reached)
        for kind, name in reached:
            record = topology.exchange("/", name) if kind == "exchange" else None
            if record is not None:
                bindings = topology.bindings_from("/", name)
                if record.type == CONSISTENT_HASH:
                    matching = naive_choice(bindings, key)
                else:
                    matching = {each.target for each in bindings if NAIVE[record.type](each, key, headers)}
                alternate = {("exchange", record.alternate)} if record.alternate and not matching else set()
                more |= matching | alternate
        if more == reached:
            return {name for kind, name in reached if kind == "queue"}
        reached = more


bindings = st.lists(
    st.tuples(st.sampled_from(EXCHANGES), st.sampled_from([*QUEUES, *EXCHANGES]), topics, header_arguments), max_size=14
)


@settings(max_examples=200)
@given(
    kinds=st.tuples(*[st.sampled_from(["direct", "fanout", "topic", "headers", CONSISTENT_HASH])] * len(EXCHANGES)),
    alternates=st.tuples(*[st.sampled_from([None, *EXCHANGES])] * len(EXCHANGES)),
    bound=bindings,
    exchange=st.sampled_from(EXCHANGES),
    key=topics,
    headers=headers,
)
def test_route_agrees_with_a_naive_one(
    kinds: tuple[str, ...], alternates: tuple[str | None, ...], bound: list[Any], exchange: str, key: str,
    headers: dict[str, Any],
) -> None:  # fmt: skip
    asked = Asked()
    for name in QUEUES:
        asked.done("queue_declare", name=name)
    for name, kind, alternate in zip(EXCHANGES, kinds, alternates, strict=True):
        declare(asked, name, kind=kind, arguments={"alternate-exchange": alternate} if alternate else {})
    for source, destination, binding_key, arguments in bound:
        operation = "queue_bind" if destination in QUEUES else "exchange_bind"
        target = {"queue" if destination in QUEUES else "destination": destination}
        if kinds[EXCHANGES.index(source)] == CONSISTENT_HASH:
            binding_key = str(1 + len(binding_key))
        asked.done(operation, source=source, key=binding_key, arguments=arguments, **target)
    found = asked.topology.route("/", exchange, key, {"headers": headers})
    assert len({queue.name for queue in found}) == len(found)
    assert {queue.name for queue in found} == naive_route(asked.topology, exchange, key, headers)
    if not asked.topology.property_indexes("/", exchange):
        assert set(asked.topology.route("/", exchange, key)) == set(found)


def test_reset_and_load_again(asked: Asked) -> None:
    asked.done("queue_declare", name="mine", exclusive=True)
    replica = Topology(7, asked.topology.changes())
    assert (replica.version, replica.owners(), len(replica.queues())) == (7, [ME], 4)
    replica.reset()
    assert not replica.has_vhost("/") and not replica.queues() and not replica.owners()
    for change in asked.topology.changes():
        replica.apply(change)
    assert list(replica.changes()) == list(asked.topology.changes())


ONE_OF_EACH: list[Change] = [
    ["shard", 0, "serving"],
    ["vhost", "/"],
    ["vhost_metadata", "/", "of orders", ["eu"]],
    ["policy", "", True, "p", ".*", "all", 0, {"max-length": 5}],
    ["policy", "/", False, "p", ".*", "all", 0, {"max-length": 5}],
    ["exchange", "/", "x", "topic", True, False, False, {}, None, None, "ann"],
    ["queue", "/", "q", 1, 3, 0, True, False, None, {"a": 1}, [], [], "p", None, None],
    ["binding", "/", "x", "queue", "q", "k", {"b": [1]}, "ann"],
    ["placement", "/", "q", 0],
    ["move", 1, 9, 0, 1, "stopping", 1, 2, None, 1.5, 3, 30, 7, "", "", []],
    ["user", "ann", "hash", ["administrator"]],
    ["permission", "ann", "/", ".*", "", ".*"],
    ["topic_permission", "ann", "/", "x", ".*", ""],
    ["limits", "user", "ann", {"max-queues": 5}],
    ["stop", 1, "/", None, None, None, None, None, "ann", "why", 1.5, None],
    ["hold_off", "ann", "::1", 1, 1.5, 2.5, 3.5, "why"],
    ["placement_version", 4],
    ["last_stop", 3],
]


def test_a_snapshot_is_the_changes_that_made_it_in_an_order_in_which_they_may_be_applied() -> None:
    assert [change[0] for change in ONE_OF_EACH] == [
        *("shard", "vhost", "vhost_metadata", "policy"),
        *(record_type.record_kind.name for record_type in KINDS[3:]),
        *COUNTERS,
    ], "none is missing"
    assert list(Topology(1, ONE_OF_EACH).changes()) == ONE_OF_EACH


def test_every_record_goes_again() -> None:
    topology = Topology(1, ONE_OF_EACH)
    for kind, *fields in reversed(ONE_OF_EACH[: -len(COUNTERS)]):
        (record_type,) = (each for each in KINDS if each.record_kind.name == kind)
        topology.apply(record_type(*fields).change_gone())
    assert list(topology.changes()) == [["placement_version", 4], ["last_stop", 3]]


@pytest.mark.parametrize(
    "change",
    [
        ["stop_gone", 1],
        ["queue_gone", "/", "q", 1],
        ["binding_gone", "/", "amq.topic", "queue", "q", "", {}],
        ["exchange", "none", "x", "direct", True, False, False, {}],
        ["permission_gone", "eve", "/"],
    ],
)
def test_a_change_that_does_not_fit(asked: Asked, change: Change) -> None:
    with pytest.raises(KeyError):
        asked.topology.apply(change)


def test_a_void_change_of_what_is_not_there_does_nothing(asked: Asked) -> None:
    before = list(asked.topology.changes())
    for change in (["placement", "/", "none", None], ["limits", "user", "none", {}]):
        asked.topology.apply(change)
    assert list(asked.topology.changes()) == before


def test_a_change_of_no_known_kind(asked: Asked) -> None:
    with pytest.raises(ValueError, match="unknown change"):
        asked.topology.apply(["surprise", 1])
