"""Reply codes, texts and the methods named in errors, which clients match on (AMQP 0-9-1 constants, usual texts)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.conftest import Names
from tests.frames import METHODS, header_frame, publish_frames
from tests.outcomes import wait_depth
from tests.raw import Channel, Client

pytestmark = pytest.mark.broker

SOFT = {311, 312, 313, 403, 404, 405, 406}


class Case(NamedTuple):
    """A method that must fail. {q} and {x} in values and text stand for an existing queue and exchange."""

    method: str
    arguments: dict[str, Any]
    code: int
    text: str


@pytest.fixture
def exchange(names: Names) -> str:
    """The unique name of an exchange."""
    return names("x")


NO_QUEUE = "no queue 'nope' in vhost '/'"
NO_EXCHANGE = "no exchange 'nope' in vhost '/'"
DEFAULT = "operation not permitted on the default exchange"

CASES = [
    Case("queue.declare", {"queue": "nope", "passive": True}, 404, NO_QUEUE),
    Case("queue.declare", {"queue": "", "passive": True}, 404, "no queue '' in vhost '/'"),
    Case(
        "queue.declare",
        {"queue": "s", "durable": True, "arguments": {"x-queue-type": "stream"}},
        406,
        "invalid arg 'x-queue-type' for queue 's' in vhost '/': \"unsupported queue type 'stream'\"",
    ),
    Case("queue.bind", {"queue": "nope", "exchange": "amq.direct"}, 404, NO_QUEUE),
    Case("queue.bind", {"queue": "{q}", "exchange": "nope"}, 404, NO_EXCHANGE),
    Case("queue.purge", {"queue": "nope"}, 404, NO_QUEUE),
    Case("basic.consume", {"queue": "nope"}, 404, NO_QUEUE),
    Case("basic.get", {"queue": "nope"}, 404, NO_QUEUE),
    Case("basic.get", {"queue": ""}, 404, "no previously declared queue"),
    Case("exchange.declare", {"exchange": "nope", "passive": True, "type": "direct"}, 404, NO_EXCHANGE),
    Case("exchange.bind", {"destination": "nope", "source": "{x}"}, 404, NO_EXCHANGE),
    Case("exchange.bind", {"destination": "{x}", "source": "nope"}, 404, NO_EXCHANGE),
    Case("queue.declare", {"queue": "amq.mine"}, 403, "queue name 'amq.mine' contains reserved prefix 'amq.*'"),
    Case(
        "exchange.declare",
        {"exchange": "amq.mine", "type": "direct"},
        403,
        "exchange name 'amq.mine' contains reserved prefix 'amq.*'",
    ),
    Case("exchange.declare", {"exchange": "", "type": "direct"}, 403, DEFAULT),
    Case("exchange.delete", {"exchange": ""}, 403, DEFAULT),
    Case("queue.bind", {"queue": "{q}", "exchange": ""}, 403, DEFAULT),
    Case("queue.unbind", {"queue": "{q}", "exchange": "", "routing_key": "{q}"}, 403, DEFAULT),
    Case(
        "exchange.delete",
        {"exchange": "amq.direct"},
        403,
        "deletion of system exchange 'amq.direct' in vhost '/' not allowed",
    ),
    Case(
        "queue.declare",
        {"queue": "{q}", "durable": True},
        406,
        "inequivalent arg 'durable' for queue '{q}' in vhost '/': received 'true' but current is 'false'",
    ),
    Case(
        "queue.declare",
        {"queue": "{q}", "auto_delete": True},
        406,
        "inequivalent arg 'auto_delete' for queue '{q}' in vhost '/': received 'true' but current is 'false'",
    ),
    Case(
        "queue.declare",
        {"queue": "{q}", "arguments": {"x-max-length": 5}},
        406,
        "inequivalent arg 'x-max-length' for queue '{q}' in vhost '/': "
        "received the value '5' of type 'signedint' but current is none",
    ),
    Case(
        "exchange.declare",
        {"exchange": "{x}", "type": "fanout"},
        406,
        "inequivalent arg 'type' for exchange '{x}' in vhost '/': received 'fanout' but current is 'direct'",
    ),
    Case(
        "exchange.declare",
        {"exchange": "{x}", "type": "direct", "durable": True},
        406,
        "inequivalent arg 'durable' for exchange '{x}' in vhost '/': received 'true' but current is 'false'",
    ),
    Case("basic.ack", {"delivery_tag": 99}, 406, "unknown delivery tag 99"),
    Case("basic.nack", {"delivery_tag": 99}, 406, "unknown delivery tag 99"),
    Case("basic.reject", {"delivery_tag": 99}, 406, "unknown delivery tag 99"),
    Case("basic.qos", {"prefetch_size": 10}, 540, "prefetch_size!=0 (10)"),
    Case("basic.recover", {"requeue": False}, 540, "requeue=false"),
]

ARGUMENT_CASES: list[tuple[dict[str, Any], str]] = [
    ({"x-max-length": "ten"}, "invalid arg 'x-max-length' for queue 'fresh' in vhost '/': "),
    ({"x-max-length": -1}, "invalid arg 'x-max-length' for queue 'fresh' in vhost '/': "),
    ({"x-max-length-bytes": True}, "invalid arg 'x-max-length-bytes' for queue 'fresh' in vhost '/': "),
    ({"x-overflow": "burst"}, "invalid arg 'x-overflow' for queue 'fresh' in vhost '/': "),
]


def refused(channel: Channel, case: Case) -> None:
    """Check the error of a case, and that a soft one leaves the connection open."""
    closed = channel.closed()
    name = {403: "ACCESS_REFUSED", 404: "NOT_FOUND", 406: "PRECONDITION_FAILED", 540: "NOT_IMPLEMENTED"}[case.code]
    assert (closed.code, closed.text) == (case.code, f"{name} - {case.text}")
    assert closed.event.name == ("channel.close" if case.code in SOFT else "connection.close")
    signature = METHODS[case.method]
    assert (closed.event.class_id, closed.event.method_id) == (signature.class_id, signature.method_id)
    if case.code in SOFT:
        channel.client.channel()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}-{case.method}-{'-'.join(case.arguments)}")
def test_refused(connect: Callable[[], Client], client: Client, queue: str, exchange: str, case: Case) -> None:
    owner = connect().channel()
    owner.call("queue.declare", queue=queue)
    owner.call("exchange.declare", exchange=exchange, type="direct")

    def fill(value: Any) -> Any:
        return value.replace("{q}", queue).replace("{x}", exchange) if isinstance(value, str) else value

    channel = client.channel()
    channel.send(case.method, **{key: fill(value) for key, value in case.arguments.items()})
    refused(channel, case._replace(text=fill(case.text)))


@pytest.mark.parametrize(("arguments", "text"), ARGUMENT_CASES)
def test_refused_arguments(channel: Channel, arguments: dict[str, Any], text: str) -> None:
    channel.send("queue.declare", queue="fresh", exclusive=True, arguments=arguments)
    closed = channel.closed()
    assert closed.code == 406
    assert closed.text.startswith(f"PRECONDITION_FAILED - {text}")


def test_value_lost_and_value_changed(client: Client, queue: str) -> None:
    client.channel().call("queue.declare", queue=queue, arguments={"x-max-length": 60000})
    for arguments, found in (
        ({}, "received none but current is the value '60000' of type 'signedint'"),
        ({"x-max-length": 1}, "received '1' but current is '60000'"),
    ):
        channel = client.channel()
        channel.send("queue.declare", queue=queue, arguments=arguments)
        closed = channel.closed()
        assert closed.text == (
            f"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{queue}' in vhost '/': {found}"
        )


def test_unknown_exchange_type(client: Client, exchange: str) -> None:
    """The error is hard in RabbitMQ 3 and soft in 4, with the same text."""
    channel = client.channel()
    channel.send("exchange.declare", exchange=exchange, type="no-such-type")
    closed = channel.closed()
    assert closed.code in (503, 406)
    assert closed.text.endswith("unknown exchange type 'no-such-type'")


def test_immediate_is_not_implemented(client: Client) -> None:
    channel = client.channel()
    channel.send("basic.publish", routing_key="q", immediate=True)
    client.write(header_frame(1, 0, {}))
    closed = channel.closed()
    assert (closed.code, closed.text) == (540, "NOT_IMPLEMENTED - immediate=true")


def test_consumer_tag_used_twice(client: Client, queue: str) -> None:
    channel = client.channel()
    channel.call("queue.declare", queue=queue)
    channel.call("basic.consume", queue=queue, consumer_tag="t")
    channel.send("basic.consume", queue=queue, consumer_tag="t")
    closed = channel.closed()
    assert (closed.code, closed.text) == (530, "NOT_ALLOWED - attempt to reuse consumer tag 't'")


def test_tag_acked_twice(client: Client, queue: str) -> None:
    channel = client.channel()
    channel.call("queue.declare", queue=queue)
    channel.publish(b"x", queue)
    channel.call("basic.consume", queue=queue)
    tag = channel.take("basic.deliver").delivery_tag
    channel.send("basic.ack", delivery_tag=tag)
    channel.send("basic.ack", delivery_tag=tag)
    assert channel.closed().text == f"PRECONDITION_FAILED - unknown delivery tag {tag}"


def test_wrong_user_id(client: Client) -> None:
    channel = client.channel()
    channel.publish(b"x", "q", user_id="bob")
    closed = channel.closed()
    assert (closed.code, closed.text) == (
        406,
        "PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was 'guest'",
    )


def test_error_after_many_publishes_names_the_right_method(client: Client, queue: str) -> None:
    """An error in the middle of a run stops the publishes after it, and none before it."""
    channel = client.channel()
    channel.call("queue.declare", queue=queue)
    data = [publish_frames(1, b"%d" % number, routing_key=queue) for number in range(100)]
    data[60] = publish_frames(1, b"60", exchange="nope", routing_key=queue)
    client.write(b"".join(data))
    closed = channel.closed()
    assert (closed.code, closed.event.class_id, closed.event.method_id) == (404, 60, 40)
    wait_depth(client.channel(), queue, 60)


def test_long_texts_are_cut(client: Client) -> None:
    """A reply text is a short string, so it is cut at 255 bytes."""
    channel = client.channel()
    channel.send("queue.declare", queue="n" * 255, passive=True)
    closed = channel.closed()
    assert closed.text.startswith("NOT_FOUND - no queue 'nnn")
    assert len(closed.text.encode()) <= 255


@pytest.mark.parametrize("method", ["basic.consume-ok", "basic.get-empty", "queue.declare-ok", "tx.select-ok"])
def test_answers_that_nobody_asked_for(connect: Callable[..., Client], method: str) -> None:
    """A method that only a server sends closes the connection."""
    channel = connect().channel()
    channel.send(method)
    closed = channel.closed()
    assert (closed.event.name, closed.code) == ("connection.close", 503)
    assert closed.text == "COMMAND_INVALID - unimplemented method"
