"""TTL, queue expiry, dead-lettering, overflow and priorities on a running broker."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Names
from tests.outcomes import wait_depth
from tests.raw import Channel, Closed
from tests.waiting import wait_for

pytestmark = pytest.mark.broker


def test_messages_expire_though_nobody_looks(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-message-ttl": 200})
    for body in (b"1", b"2", b"3"):
        channel.publish(body, queue)
    wait_depth(channel, queue, 0)
    assert channel.get(queue) is None


def test_expired_messages_are_dead_lettered(channel: Channel, names: Names) -> None:
    work, dead = names("work"), names("dead")
    channel.call("queue.declare", queue=dead)
    arguments = {"x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.call("queue.declare", queue=work, arguments=arguments)
    channel.publish(b"1", work, expiration="5", headers={"n": 1})
    wait_depth(channel, dead, 1)
    got = channel.get(dead)
    assert got and got.body == b"1" and "expiration" not in got.properties
    (death,) = got.properties["headers"]["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == (work, "expired", 1)
    assert death["original-expiration"] == "5"


def test_dead_letters_reach_queues_of_every_shard(channel: Channel, names: Names) -> None:
    """Dead letters reach queues that their names spread over the shards."""
    exchange, work = names("x"), names("work")
    targets = [names(f"dead{number}") for number in range(6)]
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    for target in targets:
        channel.call("queue.declare", queue=target)
        channel.call("queue.bind", queue=target, exchange=exchange)
    channel.call("queue.declare", queue=work, arguments={"x-max-length": 0, "x-dead-letter-exchange": exchange})
    for number in range(1000):
        channel.publish(b"%d" % number, work)
    for target in targets:
        wait_depth(channel, target, 1000)
        got = channel.get(target)
        assert got and got.body == b"0"


def test_an_unused_queue_goes(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-expires": 300})

    def bind() -> bool:
        channel.call("queue.bind", queue=queue, exchange="amq.direct", routing_key="k")
        return False

    with pytest.raises(Closed) as closed:
        wait_for(bind)
    assert closed.value.code == 404


def test_priorities(channel: Channel, queue: str) -> None:
    channel.call("queue.declare", queue=queue, arguments={"x-max-priority": 10})
    for priority in (1, 5, 0, 10, 200, 5):
        channel.publish(b"%d" % priority, queue, priority=priority)
    wait_depth(channel, queue, 6)
    got = [message.body for _ in range(6) if (message := channel.get(queue))]
    assert got == [b"10", b"200", b"5", b"5", b"1", b"0"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"x-overflow": "last"}, "invalid arg 'x-overflow' for {queue}: invalid_overflow"),
    ({"x-overflow": "last-value", "x-last-value-key": 5},
     "invalid arg 'x-last-value-key' for {queue}: {{unacceptable_type,signedint}}"),
    ({"x-dead-letter-routing-key": "k"},
     "invalid arg 'x-dead-letter-routing-key' for {queue}: routing_key_but_no_dlx_defined"),
    ({"x-expires": 0}, "invalid arg 'x-expires' for {queue}: {{value_zero,0}}"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "text"), REFUSED, ids=str)
def test_refused(channel: Channel, queue: str, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(Closed) as closed:
        channel.call("queue.declare", queue=queue, arguments=arguments)
    expected = text.format(queue=f"queue '{queue}' in vhost '/'")
    assert (closed.value.code, closed.value.text) == (406, f"PRECONDITION_FAILED - {expected}")


def test_redeclared_with_another_key(channel: Channel, queue: str) -> None:
    arguments = {"x-overflow": "last-value", "x-last-value-key": "a"}
    channel.call("queue.declare", queue=queue, arguments=arguments)
    channel.call("queue.declare", queue=queue, arguments=arguments)
    with pytest.raises(Closed) as closed:
        channel.call("queue.declare", queue=queue, arguments=arguments | {"x-last-value-key": "b"})
    assert closed.value.text == (
        f"PRECONDITION_FAILED - inequivalent arg 'x-last-value-key' for queue '{queue}' in vhost '/': "
        "received 'b' but current is 'a'"
    )
