"""Malformed and misplaced frames (specification sections 4.2.3 to 4.2.6): one clear error, and only for its sender."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest

from tests.broker import Broker
from tests.frames import BODY, HEADER, HEARTBEAT, METHOD, frame, header_frame, longstr, method_frame, shortstr
from tests.raw import Address, Channel, Client, HungUp

pytestmark = pytest.mark.broker

PUBLISH = method_frame("basic.publish", 1, routing_key="nowhere")
OTHER_METHOD = method_frame("basic.qos", 1, prefetch_count=1)


FRAME_ERRORS = {
    "wrong end octet": frame(METHOD, 1, b"\x00\x14\x00\x28" + bytes(6))[:-1] + b"\x00",
    "unknown frame type": frame(5, 1, b"abc"),
    "method without arguments": frame(METHOD, 1, struct.pack(">HH", 50, 10)),
    "short string longer than its frame": frame(METHOD, 1, struct.pack(">HHH", 50, 10, 0) + b"\xffq"),
    "table longer than its frame": frame(
        METHOD, 1, struct.pack(">HHH", 50, 10, 0) + shortstr("q") + b"\x00" + struct.pack(">I", 1000) + b"x"
    ),
    "table value of unknown type": frame(
        METHOD, 1, struct.pack(">HHH", 50, 10, 0) + shortstr("q") + b"\x00" + longstr(b"\x01k?abc")
    ),
    "method of one octet": frame(METHOD, 1, b"\x00"),
}

UNEXPECTED_FRAMES = {
    "header without method": (header_frame(1, 3, {}), "expected method frame, got non method frame instead"),
    "body without method": (frame(BODY, 1, b"abc"), "expected method frame, got non method frame instead"),
    "body without header": (
        PUBLISH + frame(BODY, 1, b"abc"),
        "expected content header for class 60, got non content header frame instead",
    ),
    "method instead of header": (
        PUBLISH + OTHER_METHOD,
        "expected content header for class 60, got non content header frame instead",
    ),
    "method instead of body": (
        PUBLISH + header_frame(1, 3, {}) + OTHER_METHOD,
        "expected content body, got non content body frame instead",
    ),
    "header instead of body": (
        PUBLISH + header_frame(1, 3, {}) + header_frame(1, 3, {}),
        "expected content body, got non content body frame instead",
    ),
    "header of another class": (
        PUBLISH + header_frame(1, 3, {}, class_id=50),
        "expected content header for class 60, got one for class 50 instead",
    ),
}


@pytest.mark.parametrize("data", FRAME_ERRORS.values(), ids=FRAME_ERRORS)
def test_frame_error(connect: Callable[[], Client], channel: Channel, data: bytes) -> None:
    broken = connect()
    broken.channel(1)
    broken.write(data)
    end = broken.ended()
    assert isinstance(end, HungUp) or end.code in (501, 502)
    assert channel.call("queue.declare", exclusive=True).queue


def test_body_longer_than_announced(broker: Broker) -> None:
    """RabbitMQ 3.10 waits for ever here."""
    with Client.connect(broker.address) as client:
        client.channel(1)
        client.write(PUBLISH + header_frame(1, 3, {}) + frame(BODY, 1, b"four"))
        assert Channel(client, 1).closed().code == 501


@pytest.mark.parametrize(("data", "text"), UNEXPECTED_FRAMES.values(), ids=UNEXPECTED_FRAMES)
def test_unexpected_frame(client: Client, data: bytes, text: str) -> None:
    client.channel(1)
    client.write(data)
    closed = Channel(client, 1).closed()
    assert (closed.code, closed.text) == (505, f"UNEXPECTED_FRAME - {text}")
    assert (closed.event.class_id, closed.event.method_id) in ((60, 40), (0, 0))


def test_frame_larger_than_agreed(connect: Callable[..., Client]) -> None:
    client = connect(frame_max=4096)
    client.channel(1)
    client.write(PUBLISH + header_frame(1, 10_000, {}) + frame(BODY, 1, bytes(5000)))
    closed = Channel(client, 1).closed()
    assert closed.code == 501
    assert closed.text.startswith("FRAME_ERROR - type 3, ")
    assert "frame_too_large" in closed.text


def test_frame_larger_than_can_be_before_tune(address: Address) -> None:
    client = Client(address)
    client.write(b"AMQP\x00\x00\x09\x01" + struct.pack(">BHI", METHOD, 0, 10_000_000) + bytes(20_000))
    assert client.hung_up()


def test_heartbeat_belongs_on_channel_zero(client: Client) -> None:
    client.channel(1)
    client.write(frame(HEARTBEAT, 1, b""))
    closed = Channel(client, 1).closed()
    assert closed.code in (501, 505)


def test_unknown_method(client: Client) -> None:
    client.channel(1)
    client.write(frame(METHOD, 1, struct.pack(">HH", 50, 99)))
    end = client.ended()
    assert isinstance(end, HungUp) or end.code in (501, 503, 540)


def test_content_frames_of_two_channels_may_alternate(client: Client, queue: str) -> None:
    """Section 4.2.6: frames of one channel stay in order; frames of others may come between them."""
    one, two = client.channel(1), client.channel(2)
    one.call("queue.declare", queue=queue)
    publishes = [method_frame("basic.publish", number, routing_key=queue) for number in (1, 2)]
    headers = [header_frame(number, 6, {}) for number in (1, 2)]
    bodies = [frame(BODY, number, half) for half in (b"abc", b"def") for number in (1, 2)]
    for nbytes in (*publishes, *headers, *bodies):
        client.write(nbytes)
    two.call("queue.declare", queue=queue, passive=True)
    bodies_got = [event.body for event in (one.get(queue), one.get(queue)) if event]
    assert bodies_got == [b"abcdef"] * 2


def test_octet_by_octet(client: Client, queue: str) -> None:
    """A frame that arrives byte by byte is handled like a whole one."""
    channel = client.channel(1)
    channel.call("queue.declare", queue=queue)
    data = method_frame("basic.publish", 1, routing_key=queue) + header_frame(1, 3, {}) + frame(BODY, 1, b"abc")
    for at in range(len(data)):
        client.write(data[at : at + 1])
    got = channel.get(queue)
    assert got and got.body == b"abc"


def test_empty_body_frames_are_harmless(client: Client, queue: str) -> None:
    channel = client.channel(1)
    channel.call("queue.declare", queue=queue)
    client.write(
        method_frame("basic.publish", 1, routing_key=queue)
        + header_frame(1, 3, {})
        + frame(BODY, 1, b"")
        + frame(BODY, 1, b"abc")
    )
    got = channel.get(queue)
    assert got and got.body == b"abc"


@pytest.mark.parametrize("seed", range(5))
def test_noise_harms_only_its_sender(connect: Callable[[], Client], channel: Channel, seed: int) -> None:
    """Random bytes after a proper login, most of them inside a plausible frame, disturb no other client."""
    noise = random.Random(seed)
    for _ in range(5):
        broken = connect()
        broken.channel(1)
        payload = noise.randbytes(noise.randrange(2000))
        if noise.random() < 0.8:
            payload = frame(noise.choice([METHOD, HEADER, BODY]), noise.randrange(3), payload)
        try:
            broken.write(payload + b"\xce" * 4096)
        except ConnectionError:
            continue
        assert broken.ended()
    assert channel.call("queue.declare", exclusive=True).queue
