"""Arbitrary requests in any order: replicas agree, nothing dangles, and ids and slots stay unique."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.bus import pack, unpack
from router.authority.governing import delete_policy, governed_exchange, governed_queue, set_policy
from router.model.records import Binding, Policy
from router.model.topology import Topology
from tests.router.making import Asked
from tests.router.strategies import header_arguments, headers, topics

QUEUES = st.sampled_from(["", "q1", "q2", "q3", "amq.q"])
EXCHANGES = st.sampled_from(["x1", "x2", "x3", "x4", "amq.topic", "amq.headers", ""])
TYPES = st.sampled_from(["direct", "fanout", "topic", "headers", "headers", "none"])
CONNECTIONS = st.sampled_from(["0.1.1", "0.1.2", "0.2.1", "1.1.1"])
ALTERNATES = st.sampled_from([{}, {}, {"alternate-exchange": "x1"}, {"alternate-exchange": "x2"}])
QUEUE_ARGUMENTS = st.sampled_from([{}, {}, {"x-max-length": 3}, {"x-max-length": -1}, {"x-queue-type": "quorum"}])
POLICIES = st.sampled_from(["p", "pp"])
DEFINITIONS = st.sampled_from([None, {"max-length": 2}, {"alternate-exchange": "x1"}, {"expires": 5}])
FLAG = st.booleans()
QUEUE_LIMIT = 6


class Requests(RuleBasedStateMachine):
    """A router, and a replica that receives only the published changes, as they come off the bus."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Asked(shards=2, queues=QUEUE_LIMIT)
        self.replica = Topology()
        self.received = 0
        self.last_id = 0

    def ask(self, operation: str, **arguments: Any) -> None:
        outcome = self.asked.ask(operation, **arguments)
        assert outcome.error is None or outcome.error[0] != 541, outcome
        if outcome.error is None and operation in ("queue_declare", "exchange_declare"):
            self.follow()
            found = self.replica.queue if operation.startswith("queue") else self.replica.exchange
            assert found("/", (outcome.result or arguments)["name"]), "read your writes"

    def follow(self) -> None:
        for step in self.asked.recorded[self.received :]:
            if step.change[0] == "queue" and self.replica.queue_by_id(step.change[3]) is None:
                assert step.change[3] > self.last_id, "queue ids grow"
                self.last_id = step.change[3]
            self.replica.apply(unpack(pack(step.change)))
        self.received = len(self.asked.recorded)

    @rule(name=EXCHANGES, type=TYPES, passive=FLAG, durable=FLAG, auto_delete=FLAG, arguments=ALTERNATES)
    def exchange_declare(self, **arguments: Any) -> None:
        self.ask("exchange_declare", **arguments)

    @rule(name=EXCHANGES, if_unused=FLAG)
    def exchange_delete(self, **arguments: Any) -> None:
        self.ask("exchange_delete", **arguments)

    @rule(source=EXCHANGES, destination=EXCHANGES, key=topics, arguments=header_arguments, bind=FLAG)
    def exchange_bind(self, bind: bool, **arguments: Any) -> None:
        self.ask("exchange_bind" if bind else "exchange_unbind", **arguments)

    @rule(name=QUEUES, connection=CONNECTIONS, passive=FLAG, durable=FLAG, exclusive=FLAG, arguments=QUEUE_ARGUMENTS)
    def queue_declare(self, **arguments: Any) -> None:
        self.ask("queue_declare", **arguments)

    @rule(source=EXCHANGES, queue=QUEUES, key=topics, arguments=header_arguments, connection=CONNECTIONS)
    def queue_bind(self, **arguments: Any) -> None:
        self.ask("queue_bind", **arguments)

    @rule(data=st.data(), connection=CONNECTIONS)
    def queue_unbind(self, data: st.DataObject, connection: str) -> None:
        existing = [
            change for change in self.asked.topology.changes() if change[0] == "binding" and change[3] == "queue"
        ]
        if existing:
            _, _, source, _, queue, key, arguments = data.draw(st.sampled_from(existing))
            self.ask("queue_unbind", source=source, queue=queue, key=key, arguments=arguments, connection=connection)

    @rule(data=st.data())
    def queue_delete(self, data: st.DataObject) -> None:
        self.ask("queue_delete", queue_id=data.draw(st.integers(0, self.last_id + 1)))

    @rule(name=QUEUES, shard=st.sampled_from([None, 0, 1, 2]))
    def queue_place(self, **arguments: Any) -> None:
        self.ask("queue_place", **arguments)

    @rule(name=POLICIES, pattern=st.sampled_from([".*", "^q1", "x"]), definition=DEFINITIONS, operator=FLAG)
    def policy(self, name: str, pattern: str, definition: dict[str, Any] | None, operator: bool) -> None:
        ledger, defaults = self.asked.authority.ledger, self.asked.authority.defaults
        known = ledger.topology.policy("/", name, operator=operator)
        if definition is not None:
            set_policy(ledger, Policy("/", operator, name, pattern, "all", len(name), definition), defaults)
        elif known is not None:
            delete_policy(ledger, known, defaults)
        self.asked.recorded += ledger.take_steps()

    @invariant()
    def all_is_governed_as_it_would_be_anew(self) -> None:
        topology, defaults = self.asked.topology, self.asked.authority.defaults
        assert all(queue == governed_queue(queue, topology, defaults) for queue in topology.queues())
        assert all(exchange == governed_exchange(exchange, topology) for exchange in topology.exchanges_in("/"))

    @rule(connection=CONNECTIONS)
    def connection_closed(self, connection: str) -> None:
        self.ask("connection_closed", connection=connection)
        assert not self.asked.topology.queues_of(connection)

    @rule(index=st.integers(0, 1), incarnation=st.integers(0, 2))
    def acceptor_died(self, index: int, incarnation: int) -> None:
        self.asked.acceptor_died(index, incarnation)

    @invariant()
    def a_replica_is_what_a_snapshot_makes(self) -> None:
        self.follow()
        snapshot = Topology(0, unpack(pack(list(self.asked.topology.changes()))))
        expected = contents(self.asked.topology)
        assert contents(self.replica) == expected
        assert contents(snapshot) == expected

    @invariant()
    def slots_are_unique_and_not_the_shards(self) -> None:
        slots = [queue.slot for queue in self.asked.topology.queues()]
        assert len(set(slots)) == len(slots) <= QUEUE_LIMIT
        assert all(2 <= slot < 2 + QUEUE_LIMIT for slot in slots)

    @invariant()
    def an_exclusive_queue_is_not_durable(self) -> None:
        assert not any(queue.durable and queue.owner for queue in self.asked.topology.queues())

    @rule(exchange=EXCHANGES, key=topics, headers=headers)
    def all_copies_route_alike(self, exchange: str, key: str, headers: dict[str, Any]) -> None:
        self.follow()
        snapshot = Topology(0, self.asked.topology.changes())
        routes = [set(topology.route("/", exchange, key, {"headers": headers}))
                  for topology in (self.asked.topology, self.replica, snapshot)]  # fmt: skip
        assert routes[0] == routes[1] == routes[2]

    @rule()
    def nothing_dangles(self) -> None:
        topology = self.asked.topology
        for kind, vhost, *fields in list(topology.changes()):
            if kind == "binding":
                source, target, name = fields[:3]
                assert topology.exchange(vhost, source)
                assert topology.queue(vhost, name) if target == "queue" else topology.exchange(vhost, name)


def contents(topology: Topology) -> set[Any]:
    """Return all records of the topology, hashable and without order."""
    found: set[Any] = set()
    for kind, *fields in topology.changes():
        if kind == "binding":
            found.add(Binding(*fields))
        else:
            found.add((kind, repr(fields)))
    return found


TestRequests = Requests.TestCase
TestRequests.settings = settings(max_examples=60, stateful_step_count=40)
