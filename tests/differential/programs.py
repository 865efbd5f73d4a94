"""Random sequences of valid and invalid methods over few names, so that they often refer to the same objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hypothesis import strategies as st

CONNECTIONS = 2
QUEUES = ["q1", "q2", "q3"]
EXCHANGES = ["x1", "x2"]
MISSING = "qmissing"
"""A queue that is rarely declared."""
ANY_QUEUE = [*QUEUES, "q1", "q2", "", MISSING]
ANY_EXCHANGE = [*EXCHANGES, "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match", "", "xmissing"]
KEYS = ["", "q1", "q2", "a", "a.b", "a.*", "#", "a.#.b", "1", "-2"]
BINDING_TABLES: list[dict[str, Any]] = [
    {}, {}, {}, {"x-match": "all", "h": "1"}, {"x-match": "any", "h": "1", "k": 2}, {"x-match": "zz"}, {"x-match": 1},
]  # fmt: skip


class Step(NamedTuple):
    """A method on the channel of a connection; if it settles a delivery, `pick` chooses among the unacked ones."""

    at: int
    name: str
    arguments: Mapping[str, Any]
    pick: int = 0

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items() if value not in (False, ""))
        return f"{self.at}: {self.name}({given})" + f" #{self.pick}" * ("delivery_tag" in self.arguments)


def mostly(value: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Draw the first value four times as often as each other."""
    return st.sampled_from([value] * 4 + list(others))


rarely = mostly(False, True)
queue = st.sampled_from(ANY_QUEUE)
exchange = st.sampled_from(ANY_EXCHANGE)
destination = st.sampled_from([*EXCHANGES, "", "xmissing"])
"""Exchanges to bind: their bindings are deleted with them, while those between predeclared exchanges would stay for the
next program.
"""
key = st.sampled_from(KEYS)
binding_table = st.sampled_from(BINDING_TABLES)
queue_table = mostly(
    {},
    {"x-max-length": 2},
    {"x-max-length": 2, "x-overflow": "reject-publish"},
    {"x-max-length": -1},
    {"x-max-length": "2"},
    {"x-max-length-bytes": 4},
    {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q2"},
    {"x-max-length": 1, "x-dead-letter-exchange": "x1"},
    {"x-max-length": 1, "x-overflow": "reject-publish-dlx", "x-dead-letter-exchange": "x2"},
    {"x-message-ttl": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"},
    {"x-dead-letter-exchange": "x1", "x-dead-letter-routing-key": "a.b"},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q3"},
    {"x-dead-letter-exchange": "xmissing"},
    {"x-max-priority": 3, "x-max-length": 2},
    {"x-overflow": "spill-over"},
    {"x-message-ttl": 3_600_000},
    {"x-message-ttl": -5},
    {"x-message-ttl": "1"},
    {"x-expires": 0},
    {"x-expires": 3_600_000},
    {"x-max-priority": 3},
    {"x-max-priority": 300},
    {"x-dead-letter-exchange": "amq.fanout"},
    {"x-dead-letter-exchange": 7},
    {"x-dead-letter-routing-key": "a"},
    {"x-single-active-consumer": True},
    {"x-single-active-consumer": "yes"},
    {"x-queue-type": "classic"},
    {"x-queue-type": "foo"},
    {"x-unknown": 1},
)
exchange_table = mostly(
    {},
    {"alternate-exchange": "amq.fanout"},
    {"alternate-exchange": "x1"},
    {"alternate-exchange": "x2"},
    {"alternate-exchange": "xmissing"},
    {"alternate-exchange": 1},
    {"unknown": "x"},
)
exchange_type = st.sampled_from(["direct", "direct", "fanout", "topic", "headers", "foo"])
headers = mostly(
    {},
    {"headers": {"h": "1"}},
    {"headers": {"h": "1", "k": 2}},
    {"headers": {"h": "2"}},
    {"headers": {"x-y": 1}},
    {"headers": {"CC": ["q2", "a.b"]}},
    {"headers": {"BCC": ["q3"], "CC": ["q1"]}},
    {"headers": {"CC": "q2"}},
    {"headers": {"BCC": [1]}},
)
properties = mostly(
    {},
    {"delivery_mode": 2},
    {"content_type": "text/plain", "priority": 2},
    {"priority": 9},
    {"expiration": "3600000"},
    {"expiration": "soon"},
    {"expiration": "-1"},
    {"expiration": "0"},
    {"user_id": "guest"},
    {"user_id": "bob"},
    {"reply_to": "nobody", "correlation_id": "1", "message_id": "2", "type": "t", "app_id": "a", "timestamp": 5},
)


def method(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    """Draw a method with arguments."""
    at = st.integers(0, CONNECTIONS - 1)
    return st.builds(Step, at, st.just(name), st.fixed_dictionaries(arguments), st.integers(0, 5))


def publish() -> st.SearchStrategy[Step]:
    """Draw a publish."""
    arguments = st.builds(
        lambda exchange, key, mandatory, headers, properties: {
            "exchange": exchange, "routing_key": key, "mandatory": mandatory, **headers, **properties,
        },
        mostly("", *ANY_EXCHANGE), mostly("q1", *KEYS), st.booleans(), headers, properties,
    )  # fmt: skip
    return st.builds(Step, st.integers(0, CONNECTIONS - 1), st.just("basic.publish"), arguments)


nothing = st.just(0)
tag = mostly("outstanding", 0, 99)

declare = method(
    "queue.declare",
    queue=st.sampled_from([*QUEUES, *QUEUES, "", "amq.reserved", MISSING]),
    passive=rarely, durable=rarely, exclusive=rarely, auto_delete=rarely, nowait=rarely, arguments=queue_table,
)  # fmt: skip
consume = method(
    "basic.consume",
    queue=queue, consumer_tag=st.sampled_from(["t1", "t2"]), no_ack=st.booleans(), exclusive=rarely, nowait=rarely,
    arguments=mostly({}, {"x-priority": 5}, {"x-priority": -1}, {"x-priority": "high"}),
)  # fmt: skip
exchange_bind = method(
    "exchange.bind", destination=destination, source=exchange, routing_key=key, nowait=rarely, arguments=binding_table
)
STEPS = st.one_of(
    declare,
    declare,
    publish(),
    publish(),
    publish(),
    consume,
    method("basic.get", queue=queue, no_ack=st.booleans()),
    method("basic.ack", delivery_tag=tag, multiple=st.booleans()),
    method("basic.nack", delivery_tag=tag, multiple=st.booleans(), requeue=st.booleans()),
    method("basic.reject", delivery_tag=tag, requeue=st.booleans()),
    method("basic.recover", requeue=mostly(True, False)),
    method("basic.qos", prefetch_count=st.integers(0, 2), global_=st.booleans(), prefetch_size=mostly(0, 7)),
    method("basic.cancel", consumer_tag=st.sampled_from(["t1", "t2"]), nowait=rarely),
    method("queue.bind", queue=queue, exchange=exchange, routing_key=key, nowait=rarely, arguments=binding_table),
    method("queue.bind", queue=queue, exchange=exchange, routing_key=key, nowait=rarely, arguments=binding_table),
    method("queue.unbind", queue=queue, exchange=exchange, routing_key=key, arguments=binding_table),
    method("queue.purge", queue=queue, nowait=rarely),
    method("queue.delete", queue=queue, if_unused=st.booleans(), if_empty=st.booleans(), nowait=rarely),
    method(
        "exchange.declare",
        exchange=exchange, type=exchange_type, passive=rarely, durable=rarely, auto_delete=rarely, internal=rarely,
        nowait=rarely, arguments=exchange_table,
    ),
    method("exchange.delete", exchange=exchange, if_unused=st.booleans(), nowait=rarely),
    exchange_bind,
    exchange_bind,
    method("exchange.unbind", destination=exchange, source=exchange, routing_key=key, nowait=rarely),
    method("confirm.select", nowait=rarely),
    method("tx.select"),
    method("tx.commit"),
    method("tx.rollback"),
    method("close channel"),
    method("close connection"),
)  # fmt: skip

OPENING = [
    Step(0, "queue.declare", {"queue": "q1"}),
    Step(0, "queue.declare", {"queue": "q2"}),
    Step(1, "exchange.declare", {"exchange": "x1", "type": "topic"}),
    Step(1, "queue.bind", {"queue": "q1", "exchange": "x1", "routing_key": "a.#"}),
    Step(0, "basic.consume", {"queue": "q2", "consumer_tag": "t1", "no_ack": False}),
]
"""Most programs begin with some of these steps; otherwise nearly all methods would fail for lack of a queue."""


def programs(steps: st.SearchStrategy[Step]) -> st.SearchStrategy[list[Step]]:
    """Draw programs of such steps."""
    return st.builds(
        lambda opening, others: OPENING[:opening] + others,
        st.integers(0, len(OPENING)),
        st.lists(steps, min_size=5, max_size=25),
    )


KILL = "kill"
DEATHS = st.builds(
    lambda place: Step(0, KILL, {"role": place[0], "index": place[1]}),
    st.sampled_from([("shard", 0), ("shard", 1), ("router", 0)]),
)
"""The death of a process of penstock. Its place is known, unlike that of the acceptor that has a connection."""
PROGRAMS = programs(STEPS)

HASH = "x-consistent-hash"
HASHED: list[dict[str, Any]] = [
    {}, {"hash-header": "h"}, {"hash-property": "message_id"}, {"hash-property": "timestamp"}, {"hash-header": ""},
    {"hash-property": "app_id"}, {"hash-header": "h", "hash-property": "message_id"},
]  # fmt: skip
HASH_DECLARE = method(
    "exchange.declare", exchange=st.sampled_from(EXCHANGES), type=st.just(HASH), arguments=st.sampled_from(HASHED)
)
"""Not part of `STEPS`: RabbitMQ chooses among several destinations by other hashes."""
ONE_DESTINATION = [
    Step(0, "queue.declare", {"queue": "q1"}),
    *(
        step
        for number, table in enumerate(HASHED)
        for step in (
            Step(0, "exchange.declare", {"exchange": "x1", "type": HASH, "arguments": table}),
            *(
                Step(at, name, {"queue": "q1", "exchange": "x1", "routing_key": key})
                for at, key in enumerate(["1", ("", "0", "-1", "a", "1.0", " 1", "é")[number]])
                for name in ("queue.bind", "queue.unbind", "queue.bind")
            ),
            *(
                Step(0, "basic.publish", {"exchange": "x1", "routing_key": key, "mandatory": True, **more})
                for key, more in (("k", {}), ("", {"message_id": "7", "headers": {"h": 1, "CC": ["l", "q1"]}}))
            ),
            Step(1, "exchange.declare", {"exchange": "x1", "type": HASH, "arguments": HASHED[number - 1]}),
            Step(1, "exchange.declare", {"exchange": "x1", "type": "direct"}),
            Step(0, "exchange.delete", {"exchange": "x1", "if_unused": True}),
            Step(0, "queue.unbind", {"queue": "q1", "exchange": "x1", "routing_key": "1"}),
            Step(0, "exchange.delete", {"exchange": "x1"}),
        )
    ),
]
"""Consistent hash exchanges with all arguments, each with one destination at most."""


def outliving(program: list[Step]) -> list[Step]:
    """Return the program with durable queues and persistent messages if a shard dies in it: whether others outlive that
    depends on how soon the shard told the acceptor that it had them.
    """
    if not any(step.name == KILL and step.arguments["role"] == "shard" for step in program):
        return program
    kept = {"queue.declare": {"durable": True, "exclusive": False}, "basic.publish": {"delivery_mode": 2}}
    return [step._replace(arguments={**step.arguments, **kept.get(step.name, {})}) for step in program]


PROGRAMS_WITH_DEATHS = programs(st.one_of(STEPS, STEPS, HASH_DECLARE, DEATHS)).map(outliving)
