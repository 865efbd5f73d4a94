"""The bindings that grant a queue power over publishes, and the queues without power.

tests/acceptor/test_grants.py tests the consequences for producers.
"""

from __future__ import annotations

from typing import Any

import pytest

from router.model.grants import NOBODY, Grants, grants, has_power, refused_by
from router.model.records import Binding, Queue
from router.model.topics_cy import Work
from router.model.working import at_once
from tests.router.making import Asked, rabbit_hash


class Granted(Asked):
    """An authority with the users ann, who may write everywhere, and bob, who may not, and a queue q."""

    def __init__(self) -> None:
        super().__init__()
        for user in ("ann", "bob"):
            self.command("user_add", name=user, password_hash=rabbit_hash("guest"), tags=[])
        self.permit("ann", ".*")
        self.permit("bob", "^none$")
        self.declare("q")
        for exchange, type in (("x", "topic"), ("y", "direct"), ("h", "headers")):
            self.done("exchange_declare", name=exchange, type=type)
        self.grants = Grants(self.topology)
        self.version = 0

    def permit(self, user: str, write: str) -> None:
        self.command("permission_set", user=user, vhost="/", configure=".*", write=write, read=".*")

    def declare(self, name: str, **options: Any) -> None:
        self.done("queue_declare", name=name, durable=True, **options)

    def bind(self, queue: str, source: str, user: str | None, key: str = "", **options: Any) -> None:
        self.done("queue_bind", queue=queue, source=source, key=key, user=user, **options)

    def queue(self, name: str = "q") -> Queue:
        found = self.topology.queue("/", name)
        assert found
        return found

    def powerless(self, exchange: str, *keys: str, headers: dict[str, object] | None = None) -> set[str]:
        """Return the names of the queues that a publish reaches and that have no power over it."""
        self.version = self.topology.version = self.version + 1
        passed: dict[str, None] = {}
        properties = {"headers": headers or {}}
        work = Work(1_000_000)
        queues = at_once(self.topology.routing(work, "/", exchange, keys, properties, passed))
        found = at_once(self.grants.powerless(work, "/", exchange, keys, properties, passed, queues))
        return {queue.name for queue in queues if queue.queue_id in found}


@pytest.fixture
def asked() -> Granted:
    return Granted()


def binding(maker: str | None, source: str = "x") -> Binding:
    return Binding("/", source, "queue", "q", "", {}, maker)


def test_a_binding_grants_power_as_long_as_its_maker_may_write(asked: Granted) -> None:
    assert grants(asked.topology, binding("ann")) and refused_by(asked.topology, binding("ann")) is None
    assert grants(asked.topology, binding(None)), "it is older than makers"
    assert not grants(asked.topology, binding("bob"))
    assert refused_by(asked.topology, binding("bob")) == "'bob' may not write to exchange 'x'"
    assert not grants(asked.topology, binding("deleted long ago"))
    asked.permit("bob", "^x$")
    assert grants(asked.topology, binding("bob")) and not grants(asked.topology, binding("bob", "y"))


def test_topic_permissions_limit_what_a_binding_grants_at_a_topic_exchange(asked: Granted) -> None:
    for exchange in "xy":
        asked.command("topic_permission_set", user="ann", vhost="/", exchange=exchange, write="^a", read=".*")
    assert refused_by(asked.topology, binding("ann")) == "'ann' may not write to all topics of exchange 'x'"
    assert not grants(asked.topology, binding("ann")) and grants(asked.topology, binding("ann", "y"))
    asked.bind("q", "x", "ann", "#")
    assert asked.powerless("x", "a.b") == set()
    assert asked.powerless("x", "b.a") == {"q"}
    assert asked.powerless("x", "a.b", "b") == {"q"}


def test_a_queue_is_powerless_unless_a_granting_binding_leads_to_it(asked: Granted) -> None:
    asked.declare("other")
    asked.bind("q", "x", "bob", "#")
    asked.bind("other", "x", "ann", "#")
    assert asked.powerless("x", "k") == {"q"}
    asked.bind("q", "x", "ann", "k.*")
    assert asked.powerless("x", "k") == {"q"} and asked.powerless("x", "k.a") == set()
    assert asked.powerless("", "q") == set(), "a publish by name needs no grant"
    asked.permit("bob", ".*")
    assert asked.powerless("x", "k") == set()


def test_of_headers_bindings_those_count_that_the_message_takes(asked: Granted) -> None:
    asked.bind("q", "h", "ann", arguments={"a": 1})
    asked.bind("q", "h", "bob", arguments={"b": 1})
    assert asked.powerless("h", "", headers={"a": 1, "b": 1}) == set()
    assert asked.powerless("h", "", headers={"b": 1}) == {"q"}


@pytest.mark.parametrize(("first", "second"), [("ann", "ann"), ("ann", "bob"), ("bob", "ann")])
def test_each_binding_on_a_way_over_exchanges_has_to_grant(asked: Granted, first: str, second: str) -> None:
    asked.done("exchange_bind", source="x", destination="y", key="#", user=first)
    asked.bind("q", "y", second, "k")
    granted = first == second
    assert (asked.powerless("x", "k") == set()) is granted
    why = asked.grants.feeder(asked.queue().queue_id)
    assert (why is None) is granted
    source = "x" if first == "bob" else "y"
    refusing = [] if granted else [(source, f"'bob' may not write to exchange '{source}'")]
    assert list(asked.grants.refusing_bindings(asked.queue())) == refusing


def test_a_policy_of_the_queue_grants_it_power(asked: Granted) -> None:
    asked.bind("q", "x", "bob", "#")
    asked.command("policy_set", vhost="/", operator=False, name="p", pattern="^q$", apply_to="queues", priority=0,
                  definition={"essential": True})  # fmt: skip
    assert asked.powerless("x", "k") == set()
    assert asked.grants.feeder(asked.queue().queue_id) is None and has_power(asked.queue())


def test_an_unprivileged_queue_has_no_power_whoever_bound_it(asked: Granted) -> None:
    asked.done("queue_declare", name="mine", exclusive=True, auto_delete=True, user="bob")
    asked.bind("mine", "x", "ann", "#")
    assert not has_power(asked.queue("mine")) and has_power(asked.queue())
    assert asked.powerless("x", "k") == {"mine"}


def test_a_publish_to_nothing_has_nobody(asked: Granted) -> None:
    assert asked.powerless("x", "k") == set()
    assert at_once(asked.grants.powerless(Work(0), "/", "x", ("k",), None, ("x",), ())) is NOBODY
    assert asked.grants.feeder(999) is None
