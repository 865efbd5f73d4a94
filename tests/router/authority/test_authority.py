"""Requests that the authority grants and refuses; codes and texts are RabbitMQ 3.10's, observed where possible."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.router.making import ME, OTHER, Asked


@pytest.fixture
def asked() -> Asked:
    return Asked()


def names(asked: Asked, exchange: str, key: str = "", headers: dict[str, Any] | None = None) -> list[str]:
    return sorted(queue.name for queue in asked.topology.route("/", exchange, key, {"headers": headers or {}}))


QUORUM_ADDED = "received the value 'quorum' of type 'longstr' but current is none"
LOCKED = (
    "cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally declared on another "
    "connection or the exclusive property value does not match that of the original declaration."
)
DEFAULT = (403, "operation not permitted on the default exchange")


@pytest.mark.parametrize(
    ("operation", "arguments", "code", "text"),
    [
        ("exchange_declare", {"name": "x", "vhost": "v"}, 530, "vhost v not found"),
        ("exchange_declare", {"name": "x", "type": "zz"}, 503, "unknown exchange type 'zz'"),
        ("exchange_declare", {"name": ""}, *DEFAULT),
        ("exchange_declare", {"name": "\r\n", "passive": True, "type": "zz"}, *DEFAULT),
        ("exchange_declare", {"name": "no", "passive": True}, 404, "no exchange 'no' in vhost '/'"),
        ("exchange_declare", {"name": "amq.x"}, 403, "exchange name 'amq.x' contains reserved prefix 'amq.*'"),
        ("exchange_declare", {"name": "\udcff"}, 406, "exchange name '\udcff' is not UTF-8"),
        (
            "exchange_declare",
            {"name": "new", "arguments": {"alternate-exchange": 5}},
            406,
            "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'new' in vhost '/'",
        ),
        (
            "exchange_declare",
            {"name": "new", "type": "x-consistent-hash", "arguments": {"hash-property": "app_id"}},
            406,
            "Unsupported property: app_id",
        ),
        (
            "exchange_declare",
            {"name": "amq.topic"},
            406,
            "inequivalent arg 'type' for exchange 'amq.topic' in vhost '/': received 'direct' but current is 'topic'",
        ),
        (
            "exchange_declare",
            {"name": "x", "arguments": {"alternate-exchange": "y"}},
            406,
            (
                "inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': "
                "received the value 'y' of type 'longstr' but current is none"
            ),
        ),
        ("exchange_delete", {"name": ""}, *DEFAULT),
        ("exchange_delete", {"name": "amq.no"}, 403, "deletion of system exchange 'amq.no' in vhost '/' not allowed"),
        ("exchange_bind", {"destination": "", "source": "x"}, *DEFAULT),
        ("exchange_bind", {"destination": "x", "source": ""}, *DEFAULT),
        ("exchange_bind", {"destination": "no", "source": "not"}, 404, "no exchange 'not' in vhost '/'"),
        ("exchange_bind", {"destination": "no", "source": "x"}, 404, "no exchange 'no' in vhost '/'"),
        ("exchange_unbind", {"destination": "x", "source": ""}, *DEFAULT),
        ("queue_declare", {"name": "amq.q"}, 403, "queue name 'amq.q' contains reserved prefix 'amq.*'"),
        ("queue_declare", {"name": "ä" * 128}, 406, "queue name of 256 bytes is longer than 255"),
        ("queue_declare", {"name": "no", "passive": True}, 404, "no queue 'no' in vhost '/'"),
        ("queue_declare", {"name": "", "passive": True}, 404, "no queue '' in vhost '/'"),
        ("queue_declare", {"name": "q", "exclusive": True}, 405, LOCKED),
        (
            "queue_declare",
            {"name": "q", "durable": True},
            406,
            "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            "queue_declare",
            {"name": "q", "auto_delete": True},
            406,
            "inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            "queue_declare",
            {"name": "q", "arguments": {"x-max-length": "ten"}},
            406,
            (
                "inequivalent arg 'x-max-length' for queue 'q' in vhost '/': "
                "received the value 'ten' of type 'longstr' but current is none"
            ),
        ),
        (
            "queue_declare",
            {"name": "q", "arguments": {"x-queue-type": "quorum"}},
            406,
            f"inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': {QUORUM_ADDED}",
        ),
        (
            "queue_declare",
            {"name": "new", "arguments": {"x-max-length": "ten"}},
            406,
            "invalid arg 'x-max-length' for queue 'new' in vhost '/': \"expected integer, got longstr\"",
        ),
        (
            "queue_declare",
            {"name": "", "durable": True, "arguments": {"x-queue-type": "quorum"}},
            406,
            "Cannot declare a server-named queue for type rabbit_quorum_queue",
        ),
        ("queue_lookup", {"name": "no"}, 404, "no queue 'no' in vhost '/'"),
        ("queue_bind", {"queue": "no", "source": "not"}, 404, "no exchange 'not' in vhost '/'"),
        ("queue_bind", {"queue": "no", "source": "x"}, 404, "no queue 'no' in vhost '/'"),
        ("queue_bind", {"queue": "q", "source": ""}, *DEFAULT),
        (
            "queue_bind",
            {"queue": "q", "source": "amq.headers", "arguments": {"x-match": "zz"}},
            406,
            'Invalid x-match field value <<"zz">>; expected all, any, all-with-x, or any-with-x',
        ),
        ("queue_unbind", {"queue": "no", "source": ""}, *DEFAULT),
        ("queue_place", {"name": "q", "shard": 3}, 406, "no shard 3"),
    ],
)
def test_refused(asked: Asked, operation: str, arguments: dict[str, Any], code: int, text: str) -> None:
    asked.done("exchange_declare", name="x")
    asked.done("queue_declare", name="q")
    assert asked.refused(operation, **arguments) == (code, text)


def test_predeclared_exchanges(asked: Asked) -> None:
    for name, kind in (("", "direct"), ("amq.direct", "direct"), ("amq.fanout", "fanout"), ("amq.topic", "topic"),
                       ("amq.headers", "headers"), ("amq.match", "headers")):  # fmt: skip
        exchange = asked.topology.exchange("/", name)
        assert exchange and (exchange.type, exchange.durable, exchange.internal) == (kind, True, False)
    for name in ("amq.rabbitmq.trace", "amq.flow"):
        reported = asked.topology.exchange("/", name)
        assert reported and reported.internal and reported.type == "topic"
    asked.done("exchange_declare", name="amq.direct", durable=True)
    asked.done("exchange_declare", name="amq.direct", type="what is ignored", passive=True)


def test_declaring_again_changes_nothing(asked: Asked) -> None:
    exchange = {"name": "x", "type": "topic", "arguments": {"alternate-exchange": "y", "other": 1}}
    queue = {"name": "q", "durable": True, "arguments": {"x-max-length": 5, "x-queue-type": "classic"}}
    asked.done("exchange_declare", **exchange)
    first = asked.done("queue_declare", **queue)
    assert not asked.changed("exchange_declare", **{**exchange, "arguments": {"alternate-exchange": "y"}})
    assert not asked.changed("queue_declare", **{**queue, "arguments": {"x-max-length": 5, "mine": "2"}})
    assert asked.done("queue_declare", **queue) == first
    assert asked.done("queue_declare", name="q", passive=True) == first
    assert asked.done("queue_lookup", name="q") == first


def test_line_ends_are_no_part_of_a_name(asked: Asked) -> None:
    assert asked.done("queue_declare", name="a\r\nb")["name"] == "ab"
    asked.done("exchange_declare", name="\nx")
    asked.done("queue_bind", queue="ab\n", source="x\r", key="k\n")
    assert names(asked, "x", "k\n") == ["ab"]
    assert asked.done("queue_declare", name="\n")["name"].startswith("amq.gen-")


def test_server_named_queues(asked: Asked) -> None:
    one, two = (asked.done("queue_declare", name="", exclusive=True)["name"] for _ in range(2))
    assert re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", one)
    assert one != two
    assert not asked.changed("queue_declare", name=one, exclusive=True)


def test_the_same_request_gets_the_same_server_named_queue(asked: Asked) -> None:
    """An acceptor repeats a request if the router died before it answered: no queue may be left that nobody knows."""
    made = asked.done("queue_declare", name="", exclusive=True)
    asked.requests -= 1
    assert asked.done("queue_declare", name="", exclusive=True) == made


def test_queue_ids_and_slots(asked: Asked) -> None:
    one, two = (asked.done("queue_declare", name=name) for name in ("one", "two"))
    assert (one["queue_id"], two["queue_id"]) == (1, 2)
    assert sorted((one["slot"], two["slot"])) == [3, 4]
    asked.done("queue_delete", queue_id=1)
    asked.done("queue_delete", queue_id=1)
    again = asked.done("queue_declare", name="one")
    assert (again["queue_id"], again["slot"], again["shard"]) == (3, one["slot"], one["shard"])


def test_no_more_queues_than_slots() -> None:
    asked = Asked(queues=2)
    made = [asked.done("queue_declare", name=name) for name in "ab"]
    code, text = asked.refused("queue_declare", name="c")
    assert code == 406
    assert text == "cannot declare queue 'c' in vhost '/': the node has 2 queues, its limit (max_queues)"
    asked.done("queue_delete", queue_id=made[0]["queue_id"])
    assert asked.done("queue_declare", name="c")["slot"] == made[0]["slot"]


def test_exclusive_queue(asked: Asked) -> None:
    made = asked.done("queue_declare", name="q", exclusive=True, durable=True)
    queue = asked.topology.queue_by_id(made["queue_id"])
    assert queue and (queue.owner, queue.durable) == (ME, False)
    assert asked.done("queue_declare", name="q", exclusive=True) == made
    assert asked.done("queue_declare", name="q", passive=True) == made
    assert asked.refused("queue_declare", name="q") == (405, LOCKED)
    asked.done("queue_unbind", queue="q", source="amq.direct", connection=OTHER)
    asked.done("queue_bind", queue="q", source="amq.direct")
    for operation, arguments in (
        ("queue_declare", {"name": "q", "passive": True}),
        ("queue_declare", {"name": "q", "exclusive": True}),
        ("queue_lookup", {"name": "q"}),
        ("queue_bind", {"queue": "q", "source": "amq.direct"}),
        ("queue_unbind", {"queue": "q", "source": "amq.direct"}),
    ):
        assert asked.refused(operation, connection=OTHER, **arguments) == (405, LOCKED)


def test_exclusive_queues_go_with_their_connection(asked: Asked) -> None:
    asked.done("queue_declare", name="mine", exclusive=True)
    asked.done("queue_declare", name="theirs", exclusive=True, connection=OTHER)
    asked.done("queue_declare", name="everybody's")
    asked.done("exchange_declare", name="x", auto_delete=True)
    asked.done("queue_bind", queue="mine", source="x")
    gone = asked.changed("connection_closed", connection=ME)
    assert [change[0] for change in gone] == ["binding_gone", "queue_gone", "exchange_gone"]
    assert asked.done("connection_closed", connection=ME) == {"queues": 0}
    assert sorted(queue.name for queue in asked.topology.queues()) == ["everybody's", "theirs"]


def test_exclusive_queues_go_with_their_acceptor(asked: Asked) -> None:
    for connection in ("0.1.1", "0.2.9", "0.3.1", "1.1.1", "10.1.1"):
        asked.done("queue_declare", name=connection, exclusive=True, connection=connection)
    assert asked.acceptor_died(0, 2) == 2
    assert asked.acceptor_died(0, 1) == 0
    assert sorted(queue.name for queue in asked.topology.queues()) == ["0.3.1", "1.1.1", "10.1.1"]
    # Requests of a dead acceptor may arrive after the news of its death.
    assert asked.refused("queue_declare", name="", exclusive=True, connection="0.2.9") == (
        320,
        "connection 0.2.9 is gone",
    )
    asked.done("queue_declare", name="", exclusive=True, connection="0.3.1")


def test_bindings_are_unique(asked: Asked) -> None:
    asked.done("queue_declare", name="q")
    binding = {"queue": "q", "source": "amq.topic", "key": "k", "arguments": {"a": 1, "b": 2}}
    assert len(asked.changed("queue_bind", **binding)) == 1
    assert not asked.changed("queue_bind", **{**binding, "arguments": {"b": 2, "a": 1}})
    others: list[dict[str, Any]] = [{"key": "l"}, {"arguments": {}}, {"arguments": {"a": True, "b": 2}}]
    for other in (*others, {"source": "amq.direct"}):
        assert len(asked.changed("queue_bind", **{**binding, **other})) == 1
    gone = asked.changed("queue_unbind", **{**binding, "arguments": {"b": 2, "a": 1}})
    assert gone == [["binding_gone", "/", "amq.topic", "queue", "q", "k", {"a": 1, "b": 2}]]
    assert list(gone[0][6]) == ["a", "b"], "the binding's own arguments: the store looks for their octets"
    assert not asked.changed("queue_unbind", **binding)


def test_unbinding_what_is_not_there_succeeds(asked: Asked) -> None:
    asked.done("queue_declare", name="q")
    for arguments in ({"queue": "q", "source": "no"}, {"queue": "no", "source": "amq.direct"}):
        assert not asked.changed("queue_unbind", **arguments)
    assert not asked.changed("exchange_unbind", destination="no", source="not")
    assert not asked.changed("exchange_unbind", destination="amq.topic", source="amq.direct")
    bad_mode = {"queue": "q", "source": "amq.headers", "arguments": {"x-match": "zz"}}
    assert not asked.changed("queue_unbind", **bad_mode)


def test_delete_exchange(asked: Asked) -> None:
    asked.done("queue_declare", name="q")
    asked.done("exchange_declare", name="x")
    asked.done("queue_bind", queue="q", source="x")
    asked.done("exchange_bind", destination="x", source="amq.fanout")
    assert asked.refused("exchange_delete", name="x", if_unused=True) == (406, "exchange 'x' in vhost '/' in use")
    asked.done("queue_unbind", queue="q", source="x")
    asked.done("exchange_delete", name="x", if_unused=True)
    asked.done("exchange_delete", name="x")
    assert names(asked, "amq.fanout") == []


def test_exchange_bound_to_itself(asked: Asked) -> None:
    asked.done("exchange_declare", name="x", auto_delete=True)
    asked.done("exchange_bind", destination="x", source="x")
    assert [change[0] for change in asked.changed("exchange_delete", name="x")] == ["binding_gone", "exchange_gone"]


def test_auto_delete_exchanges_go_one_after_the_other(asked: Asked) -> None:
    """Each goes with the last binding *from* it; the chain is longer than any stack."""
    for number in range(2000):
        asked.done("exchange_declare", name=f"x{number}", auto_delete=True, type="fanout")
    for number in range(1999):
        asked.done("exchange_bind", destination=f"x{number}", source=f"x{number + 1}")
    made = asked.done("queue_declare", name="q")
    asked.done("queue_bind", queue="q", source="x0")
    assert names(asked, "x1999") == ["q"]
    asked.done("queue_delete", queue_id=made["queue_id"])
    assert asked.topology.exchange("/", "x1999") is None
    assert asked.topology.exchange("/", "x0") is None


def test_auto_delete_exchange_waits_for_its_first_binding(asked: Asked) -> None:
    asked.done("queue_declare", name="q")
    asked.done("exchange_declare", name="x", auto_delete=True)
    asked.done("exchange_bind", destination="x", source="amq.fanout")
    asked.done("exchange_unbind", destination="x", source="amq.fanout")
    asked.done("queue_unbind", queue="q", source="x")
    asked.done("queue_bind", queue="q", source="x")
    asked.done("queue_bind", queue="q", source="x", key="other")
    asked.done("queue_unbind", queue="q", source="x")
    assert asked.topology.exchange("/", "x")
    asked.done("queue_unbind", queue="q", source="x", key="other")
    assert asked.topology.exchange("/", "x") is None


def test_what_is_durable(asked: Asked) -> None:
    """A binding is durable if both its ends are."""
    asked.done("exchange_declare", name="x", durable=True)
    asked.done("exchange_declare", name="y")
    asked.done("queue_declare", name="q", durable=True)
    asked.done("queue_declare", name="p")
    asked.recorded.clear()
    asked.done("queue_bind", queue="q", source="x")
    asked.done("queue_bind", queue="p", source="x")
    asked.done("queue_bind", queue="q", source="y")
    asked.done("exchange_bind", destination="x", source="amq.fanout")
    asked.done("exchange_delete", name="x")
    asked.done("exchange_delete", name="y")
    kinds = [(step.change[0], step.durable) for step in asked.recorded]
    assert kinds[:4] == [("binding", True), ("binding", False), ("binding", False), ("binding", True)]
    assert sorted(kinds[4:8]) == sorted(
        [("binding_gone", True), ("binding_gone", False), ("binding_gone", True), ("exchange_gone", True)]
    )
    assert kinds[8:] == [("binding_gone", False), ("exchange_gone", False)]


def test_placement(asked: Asked) -> None:
    made = asked.done("queue_declare", name="q")
    elsewhere = (made["shard"] + 1) % 3
    changed = asked.changed("queue_place", name="q", shard=elsewhere)
    assert changed == [["placement", "/", "q", elsewhere], ["placement_version", 1]]
    assert not asked.changed("queue_place", name="q", shard=elsewhere)
    assert asked.done("queue_lookup", name="q") == made
    asked.done("queue_delete", queue_id=made["queue_id"])
    again = asked.done("queue_declare", name="q")
    assert again["shard"] == elsewhere
    asked.done("queue_delete", queue_id=again["queue_id"])
    asked.done("queue_place", name="q", shard=None)
    assert asked.done("queue_declare", name="q")["shard"] == made["shard"]


def test_limits_go_with_the_queue(asked: Asked) -> None:
    asked.done("queue_declare", name="q", arguments={"x-max-length": 10, "x-overflow": "flow"})
    queue = asked.topology.queue("/", "q")
    assert queue and queue.limits == [10, None, "flow", 8, 7, 0, 0]
