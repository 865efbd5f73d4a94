"""Expiry in the contents of a queue, compiled and plain, against a list of messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.amqp.properties import encode_properties
from penstock.batch.batch_cy import HAS_EXPIRATION
from tests.twins import both_ways

Load = Callable[[str], ModuleType]
UNLIMITED = 1 << 62
NEVER = 1 << 62


@dataclass
class Message:
    body: bytes
    expiry: int
    sequence: int


def batch_of(load: Load, expirations: list[int | None], start: int) -> Any:
    builder = load("penstock.batch.batch_cy").BatchBuilder()
    for number, expiration in enumerate(expirations, start):
        properties: dict[str, object] = {"content_type": "t", "headers": {"a": 1}, "priority": 3, "reply_to": "r"}
        if expiration is not None:
            properties["expiration"] = str(expiration)
        header = b"\0\x3c\0\0" + bytes(8) + encode_properties(properties)
        builder.add(b"\0\1q", header, b"%d" % number, 0 if expiration is None else HAS_EXPIRATION)
    return builder.finish()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("enqueue"), st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=5)),
        st.tuples(st.just("take"), st.integers(1, 4)),
        st.tuples(st.just("requeue"), st.integers(0, 9)),
        st.tuples(st.just("pass"), st.integers(1, 15)),
        st.tuples(st.just("offered"), st.just(0)),
    ),
    max_size=25,
)


@both_ways
@given(ttl=st.none() | st.integers(0, 20), steps=steps)
def test_against_a_model(load: Load, ttl: int | None, steps: list[tuple[str, Any]]) -> None:
    queue = load("shard.contents.queue_cy").Queue(1, None)
    queue.configure(-1 if ttl is None else ttl * 1000, True, -1)
    ready: list[Message] = []
    held: list[Message] = []
    dead: list[bytes] = []
    now = made = fresh = 0

    def expire() -> None:
        while ready and ready[0].expiry <= now and ready[0].sequence < fresh:
            dead.append(ready.pop(0).body)

    for kind, value in steps:
        if kind == "enqueue":
            queue.enqueue(batch_of(load, value, made), 0, len(value), now)
            for number, own in enumerate(value, made):
                least = min((each for each in (ttl, own) if each is not None), default=None)
                expiry = NEVER if least is None else now + least * 1000
                ready.append(Message(b"%d" % number, expiry, number))
            made += len(value)
        elif kind == "pass":
            now += value * 1000
            queue.expire(now)
            expire()
        elif kind == "offered":
            queue.offered()
            fresh = made
            queue.expire(now)
            expire()
        elif kind == "requeue" and held:
            message = held.pop(value % len(held))
            queue.requeue(message.sequence, 1)
            ready = sorted([*ready, message], key=lambda each: each.sequence)
        elif kind == "take":
            # Messages are offered to consumers before a pop, so none of them is fresh any more.
            queue.offered()
            fresh = made
            taken = queue.pop(value, UNLIMITED, False)
            expected: list[Message] = []
            while len(expected) < value:
                expire()
                if not ready:
                    break
                expected.append(ready.pop(0))
            got = [i.batch.record(i.first + n)[2] for i in taken for n in range(i.count)]
            assert got == [message.body for message in expected]
            held += expected
        buried = [i.batch.record(i.first + n)[2] for _, i in queue.dead for n in range(i.count)]
        assert buried == dead
        assert (queue.ready, queue.unacked, queue.totals.dropped) == (len(ready), len(held), len(dead))
        assert queue.ready_bytes == sum(len(message.body) for message in ready)
        assert queue.next_expiry() == (ready[0].expiry if ready else NEVER)
