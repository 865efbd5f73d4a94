"""Names and texts that are not UTF-8: the sender gets a clear error, and no other client is affected.

RabbitMQ 3.10 has the same rule: a short string of a method must be UTF-8 (501), other strings may be any bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from router.authority.queue_arguments import KNOWN
from tests.frames import METHOD, frame, header_frame, longstr, method_frame, shortstr
from tests.raw import Channel, Client, Closed

pytestmark = pytest.mark.broker

BROKEN = b"\xff\xfe"

SHORT_STRINGS = {
    "vhost": method_frame("connection.open", vhost=BROKEN),
    "text of connection.close": method_frame("connection.close", code=200, text=BROKEN),
    "text of channel.close": method_frame("channel.close", 1, code=200, text=BROKEN),
    "exchange.declare": method_frame("exchange.declare", 1, exchange=BROKEN, type="direct"),
    "type of an exchange": method_frame("exchange.declare", 1, exchange="e", type=BROKEN),
    "exchange.delete": method_frame("exchange.delete", 1, exchange=BROKEN),
    "exchange.bind": method_frame("exchange.bind", 1, destination=BROKEN, source="amq.topic", routing_key="k"),
    "queue.declare": method_frame("queue.declare", 1, queue=BROKEN),
    "queue.declare, passive": method_frame("queue.declare", 1, queue=BROKEN, passive=True),
    "exchange of queue.bind": method_frame("queue.bind", 1, queue="", exchange=BROKEN, routing_key="k"),
    "key of queue.bind": method_frame("queue.bind", 1, queue="", exchange="amq.topic", routing_key=BROKEN),
    "queue.purge": method_frame("queue.purge", 1, queue=BROKEN),
    "queue.delete": method_frame("queue.delete", 1, queue=BROKEN),
    "exchange of basic.publish": method_frame("basic.publish", 1, exchange=BROKEN) + header_frame(1, 0, {}),
    "key of basic.publish": method_frame("basic.publish", 1, routing_key=BROKEN) + header_frame(1, 0, {}),
    "basic.get": method_frame("basic.get", 1, queue=BROKEN),
    "basic.consume": method_frame("basic.consume", 1, queue=BROKEN),
    "consumer tag": method_frame("basic.consume", 1, queue="", consumer_tag=BROKEN),
    "basic.cancel": method_frame("basic.cancel", 1, consumer_tag=BROKEN),
}


@pytest.mark.parametrize("data", SHORT_STRINGS.values(), ids=SHORT_STRINGS)
def test_short_string_of_a_method(connect: Callable[[], Client], channel: Channel, data: bytes) -> None:
    sender = connect()
    sender.channel(1).call("queue.declare", exclusive=True)
    sender.write(data)
    end = sender.take("connection.close")
    assert (end.code, end.text) == (501, "FRAME_ERROR - Malformed UTF-8 in shortstr")
    assert channel.call("queue.declare", exclusive=True).queue


UNREAD = {"x-queue-master-locator"}
"""Known arguments without an effect."""


def declaration(argument: str, value: bytes) -> bytes:
    """Return the queue.declare of an exclusive queue with one argument, its value in wire format."""
    frame_of = struct.pack(">HHH", 50, 10, 0) + shortstr("") + b"\x04" + longstr(shortstr(argument) + value)
    return frame(METHOD, 1, frame_of)


def refused(client: Client, answer: str) -> int:
    """Return the reply code that closes channel 1; the answer must not arrive."""
    with pytest.raises(Closed) as closed:
        client.take(answer, channel=1)
    return closed.value.code


@pytest.mark.parametrize("kind", [b"S", b"x"], ids=["text", "octets"])
@pytest.mark.parametrize("argument", sorted(KNOWN))
def test_argument_of_a_queue(connect: Callable[[], Client], channel: Channel, argument: str, kind: bytes) -> None:
    """Invalid text is refused in an argument with an effect, and kept as it is in others."""
    sender = connect()
    sender.channel(1)
    sender.write(declaration(argument, kind + longstr(BROKEN)))
    if argument in UNREAD:
        sender.take("queue.declare-ok", channel=1)
    else:
        assert refused(sender, "queue.declare-ok") == 406
    assert channel.call("queue.declare", exclusive=True).queue


@pytest.mark.parametrize("kind", [b"S", b"x"], ids=["text", "octets"])
def test_alternate_exchange(connect: Callable[[], Client], names: Callable[[str], str], kind: bytes) -> None:
    sender = connect()
    sender.channel(1)
    arguments = struct.pack(">HHH", 40, 10, 0) + shortstr(names("e")) + shortstr("direct") + b"\x00"
    sender.write(frame(METHOD, 1, arguments + longstr(shortstr("alternate-exchange") + kind + longstr(BROKEN))))
    assert refused(sender, "exchange.declare-ok") == 406


PROPERTIES = {
    "user_id": 406,
    "expiration": 406,
    **dict.fromkeys(("content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type", "app_id",
                     "cluster_id"), 0),
}  # fmt: skip


@pytest.mark.parametrize(("name", "code"), PROPERTIES.items(), ids=PROPERTIES)
def test_property(client: Client, channel: Channel, name: str, code: int) -> None:
    """Properties that the broker does not read pass unchanged."""
    queue = channel.call("queue.declare", exclusive=True).queue
    channel.publish(b"x", queue, **{name: BROKEN})
    if code:
        assert channel.closed().code == code
        return
    assert channel.depth(queue) == 1
    channel.send("basic.get", queue=queue, no_ack=True)
    received = b""
    while BROKEN not in received:
        received += client.read_bytes(1)


def test_consumer_arguments(client: Client, channel: Channel) -> None:
    queue = channel.call("queue.declare", exclusive=True).queue
    arguments = struct.pack(">HHH", 60, 20, 0) + shortstr(queue) + shortstr("") + b"\x00"
    client.write(frame(METHOD, 1, arguments + longstr(shortstr("x-lease") + b"S" + longstr(BROKEN))))
    assert refused(client, "basic.consume-ok") == 406
