"""Connecting, negotiating, heartbeats and leaving (specification sections 2.2.4, 4.2.2, 4.2.7; class Connection)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.frames import PROTOCOL_HEADER, method_frame, publish_frames
from tests.raw import CAPABILITIES, Address, Channel, Client, Closed, HungUp
from tests.waiting import wait_for

pytestmark = pytest.mark.broker


def test_server_properties(client: Client) -> None:
    properties = client.server_properties
    assert {"product", "version", "platform", "capabilities"} <= properties.keys()
    assert properties["product"] == "RabbitMQ"
    expected = {
        *("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify"),
        *("connection.blocked", "authentication_failure_close", "per_consumer_qos", "consumer_priorities"),
        "direct_reply_to",
    }
    assert expected <= {name for name, active in properties["capabilities"].items() if active is True}


def test_a_close_with_publishes_behind_it_is_answered(client: Client, channel: Channel) -> None:
    """As amqplib 2 closes: everything behind the close is dropped, and the answer arrives all the same."""
    queue = channel.call("queue.declare", exclusive=True).queue
    behind = publish_frames(channel.number, bytes(2000), "", queue) * 20_000
    client.socket.sendall(method_frame("connection.close", code=200, text="bye") + behind)
    client.take("connection.close-ok")
    assert client.hung_up()


def test_a_client_that_never_closes_its_socket_is_let_go(client: Client) -> None:
    client.call("connection.close", code=200, text="bye")
    assert client.hung_up()
    wait_for(lambda: is_reset(client), what="the reset")


def is_reset(client: Client) -> bool:
    """Whether the broker's end of the socket is closed, so that sending fails."""
    try:
        client.socket.sendall(bytes(1))
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def test_offered_limits(client: Client) -> None:
    assert (client.tune.channel_max, client.tune.frame_max, client.tune.heartbeat) == (2047, 131072, 60)


@pytest.mark.parametrize(
    "greeting", [b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 8]
)
def test_another_protocol_is_answered_with_our_header(address: Address, greeting: bytes) -> None:
    """Section 4.2.2."""
    client = Client(address)
    client.write(greeting)
    assert client.read_bytes(8) == PROTOCOL_HEADER
    assert client.hung_up()
    client.socket.close()


def test_amqp_0_9_header_is_accepted(address: Address) -> None:
    client = Client(address)
    client.write(b"AMQP\x01\x01\x00\x09")
    start = client.take("connection.start")
    assert (start.major, start.minor) == (0, 9)
    assert {b"PLAIN", b"AMQPLAIN"} <= set(start.mechanisms.split())
    assert b"en_US" in start.locales.split()
    client.socket.close()


def test_amqplain(address: Address) -> None:
    with Client.connect(address, mechanism="AMQPLAIN") as client:
        client.channel()


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_wrong_password_is_told_to_who_can_hear_it(address: Address, mechanism: str) -> None:
    with pytest.raises(Closed) as refused:
        Client.connect(address, password="wrong", mechanism=mechanism)
    assert refused.value.code == 403
    assert refused.value.text == (
        f"ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile."
    )


def test_wrong_password_closes_the_socket_of_others(address: Address) -> None:
    with pytest.raises(HungUp):
        Client.connect(address, password="wrong", capabilities={})


def test_unknown_mechanism_closes_the_socket(address: Address) -> None:
    client = Client(address)
    client.write(PROTOCOL_HEADER)
    client.take("connection.start")
    client.send("connection.start-ok", mechanism="CRAM-MD5", response=b"", locale="en_US")
    assert client.hung_up()
    assert not client.arrived()


def test_unknown_vhost(address: Address) -> None:
    with pytest.raises(Closed) as refused:
        Client.connect(address, vhost="nowhere")
    assert (refused.value.code, refused.value.text) == (530, "NOT_ALLOWED - vhost nowhere not found")
    assert (refused.value.event.class_id, refused.value.event.method_id) == (10, 40)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"frame_max": 100}, "negotiated frame_max = 100 is lower than the minimum allowed value"),
        ({"frame_max": 131073}, "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"),
        (
            {"frame_max": 0},
            "negotiated frame_max = 0 (no limit) is higher than the maximum allowed value (131072)",
        ),
        ({"channel_max": 2048}, "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (
            {"channel_max": 0},
            "negotiated channel_max = 0 (no limit) is higher than the maximum allowed value (2047)",
        ),
    ],
)
def test_limits_may_only_be_lowered(address: Address, limits: dict[str, int], text: str) -> None:
    """Section 4.2.2: the broker names the reason or, like RabbitMQ 3.10, only hangs up."""
    with pytest.raises((Closed, HungUp)) as refused:
        Client.connect(address, **limits)
    if isinstance(refused.value, Closed):
        assert refused.value.code == 530
        assert refused.value.text.startswith(f"NOT_ALLOWED - {text}")


def test_any_channel_number_will_do(client: Client) -> None:
    """As in RabbitMQ, channel_max limits the count of channels, not their numbers."""
    with pytest.raises(Closed) as missing:
        client.channel(65535).call("queue.bind", queue="no-such", exchange="amq.direct")
    assert (missing.value.code, missing.value.event.channel) == (404, 65535)


def test_channel_max(connect: Callable[..., Client]) -> None:
    client = connect(channel_max=2)
    client.channel(1)
    client.channel(2)
    with pytest.raises(Closed) as refused:
        client.channel(3)
    assert (refused.value.code, refused.value.text) == (
        530,
        "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)",
    )


def test_all_channels_offered_can_be_open(client: Client) -> None:
    channels = [client.channel(number) for number in range(1, 2048)]
    assert channels[-1].call("queue.declare", exclusive=True).queue


def test_broker_sends_heartbeats(connect: Callable[..., Client]) -> None:
    """Section 4.2.7: an idle broker sends one every half interval."""
    client = connect(heartbeat=2)

    def two_came() -> bool:
        client.heartbeat()  # a silent client would be dropped if the broker is late
        client.poll()
        return client.heartbeats >= 2

    wait_for(two_came, what="two heartbeats")


def test_silent_client_is_dropped(connect: Callable[..., Client]) -> None:
    """Section 4.2.7: a client is dropped after two intervals without a byte."""
    before = time.monotonic()
    assert connect(heartbeat=1).hung_up()
    assert time.monotonic() - before >= 2


def test_client_that_sends_heartbeats_stays(connect: Callable[..., Client]) -> None:
    client = connect(heartbeat=2)
    for _ in range(14):
        client.heartbeat()
        assert not client.hung_up(timeout=0.5)
    client.channel()


def test_no_heartbeat_where_none_was_agreed(client: Client) -> None:
    assert not client.hung_up(timeout=3)
    assert client.heartbeats == 0


def test_exclusive_queues_are_gone_before_close_ok(address: Address, channel: Channel, queue: str) -> None:
    client = Client.connect(address)
    client.channel().call("queue.declare", queue=queue, exclusive=True)
    client.call("connection.close", code=200, text="bye")
    channel.send("queue.declare", queue=queue, passive=True)
    assert channel.closed().code == 404
    client.socket.close()


def test_after_close_nothing_else_is_obeyed(address: Address, channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue)
    client = Client.connect(address)
    other = client.channel()
    client.send("connection.close", code=200, text="bye")
    other.publish(b"too late", queue)
    client.take("connection.close-ok")
    client.socket.close()
    assert channel.depth(queue) == 0


def test_method_on_a_channel_that_is_not_open(client: Client) -> None:
    client.send("queue.declare", 7, queue="q")
    closed = Channel(client, 7).closed()
    assert (closed.code, closed.text) == (504, "CHANNEL_ERROR - expected 'channel.open'")


def test_channel_opened_twice(client: Client) -> None:
    client.channel(1)
    client.send("channel.open", 1)
    closed = Channel(client, 1).closed()
    assert (closed.code, closed.text) == (504, "CHANNEL_ERROR - second 'channel.open' seen")
    assert (closed.event.class_id, closed.event.method_id) == (20, 10)


def test_channel_error_leaves_the_other_channels_alone(client: Client) -> None:
    broken, sound = client.channel(), client.channel()
    broken.send("queue.declare", queue="surely-not-there", passive=True)
    assert broken.closed().code == 404
    assert sound.call("queue.declare", exclusive=True).queue
    assert client.channel(broken.number).call("queue.declare", exclusive=True).queue


def test_a_closed_channel_ignores_all_until_close_ok(client: Client, queue: str) -> None:
    """Methods in flight when the broker closes the channel have no effect."""
    channel = client.channel()
    channel.call("queue.declare", queue=queue)
    channel.send("queue.declare", queue="surely-not-there", passive=True)
    channel.publish(b"x", queue)
    channel.send("basic.ack", delivery_tag=99)
    channel.send("queue.delete", queue=queue)
    assert channel.closed().code == 404
    assert client.channel(channel.number).call("queue.declare", queue=queue, passive=True).messages == 0


def test_channel_close_of_the_client(client: Client) -> None:
    channel = client.channel()
    channel.call("channel.close", code=200, text="done")
    assert client.channel(channel.number).call("queue.declare", exclusive=True).queue


def test_capabilities_are_not_taken_for_granted(connect: Callable[..., Client], channel: Channel, queue: str) -> None:
    """A client that did not declare consumer_cancel_notify never sees a basic.cancel."""
    channel.call("queue.declare", queue=queue)
    seen = {}
    for notified in (True, False):
        capabilities = CAPABILITIES | {"consumer_cancel_notify": notified}
        consumer = connect(capabilities=capabilities).channel()
        consumer.call("basic.consume", queue=queue, consumer_tag="c")
        seen[notified] = consumer
    channel.call("queue.delete", queue=queue)
    cancel = seen[True].take("basic.cancel")
    assert (cancel.consumer_tag, cancel.nowait) == ("c", True)
    assert seen[False].call("queue.declare", exclusive=True).queue
    assert not seen[False].pending()


def test_handshake_that_stalls_is_dropped(address: Address) -> None:
    """A handshake is dropped within ten seconds, whether it stalls before the header or after connection.start."""
    silent, started = Client(address), Client(address)
    started.write(PROTOCOL_HEADER)
    started.take("connection.start")
    assert started.hung_up()
    assert silent.hung_up()


def test_update_secret(client: Client) -> None:
    """RabbitMQ's extension for renewed tokens is answered; passwords are not checked once more."""
    client.call("connection.update-secret", new_secret=b"new", reason="renewed")
    client.channel()
