"""Generated streams of frames for the scanner's tests: as clients send them, and damaged."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from penstock.amqp.properties import PROPERTIES
from tests import frames
from tests.frames import BODY, HEADER, HEARTBEAT, METHOD
from tests.penstock.amqp import strategies
from tests.penstock.amqp.reading import FRAME_MAX

Strategy = st.SearchStrategy[Any]

_addresses: Strategy = st.tuples(st.sampled_from(["", "x", "an exchange"]), st.sampled_from(["", "q", "a.b.c"]))
_properties: Strategy = st.fixed_dictionaries(
    {},
    optional={
        name: {
            "shortstr": st.text("aé", max_size=5),
            "octet": st.integers(0, 3),
            "timestamp": st.integers(0, 2**64 - 1),
            "table": st.dictionaries(st.text("abBC", max_size=3), st.none() | st.integers(-5, 5), max_size=2),
        }[domain]
        for name, domain in PROPERTIES
    }
    | {
        "reply_to": st.sampled_from(["amq.rabbitmq.reply-to", "amq.rabbitmq.reply-tO", "amq.rabbitmq.reply_to", "q"]),
        "expiration": st.text("019-+ x", max_size=13),
    },
)


def _cut(channel: int, body: bytes, size: int) -> list[bytes]:
    return [frames.frame(BODY, channel, body[at : at + size]) for at in range(0, len(body), size)]


def _publish(
    channel: int, address: tuple[str, str], bits: int, properties: dict[str, Any], bodies: list[bytes], size: int
) -> list[bytes]:
    """Return the frames of some publishes with the same method frame."""
    exchange, key = address
    method = frames.method_frame(
        "basic.publish", channel, exchange=exchange, routing_key=key, mandatory=bits & 1, immediate=bits & 2
    )
    return [
        nbytes
        for body in bodies
        for nbytes in (method, frames.header_frame(channel, len(body), properties), *_cut(channel, body, size))
    ]


_bodies: Strategy = st.lists(st.binary(max_size=12) | st.binary(min_size=80, max_size=100), min_size=1, max_size=4)
_tags: Strategy = st.integers(0, 9) | st.integers(0, 2**64 - 1)


def _acks(channel: int) -> Strategy:
    return st.builds(
        lambda tag, multiple: frames.method_frame("basic.ack", channel, delivery_tag=tag, multiple=multiple),
        _tags,
        st.booleans(),
    )


def _nacks(channel: int) -> Strategy:
    return st.builds(
        lambda tag, multiple, requeue: frames.method_frame(
            "basic.nack", channel, delivery_tag=tag, multiple=multiple, requeue=requeue
        ),
        _tags,
        st.booleans(),
        st.booleans(),
    )


def _rejects(channel: int) -> Strategy:
    return st.builds(
        lambda tag, requeue: frames.method_frame("basic.reject", channel, delivery_tag=tag, requeue=requeue),
        _tags,
        st.booleans(),
    )


def _publishes(channel: int) -> Strategy:
    sizes = st.sampled_from([1, 7, 50, FRAME_MAX - 8])
    return st.builds(_publish, st.just(channel), _addresses, st.integers(0, 3), _properties, _bodies, sizes)


def _others(channel: int) -> Strategy:
    names = st.sampled_from(["basic.get", "queue.declare", "channel.close"])
    return names.map(lambda name: frames.method_frame(name, channel))


def _on_channel(channel: int) -> Strategy:
    single = st.one_of(_acks(channel), _nacks(channel), _rejects(channel), _others(channel))
    parts = st.lists(_publishes(channel) | single.map(lambda frame: [frame]), max_size=4)
    return parts.map(lambda parts: [frame for part in parts for frame in part])


_on_channel_0: Strategy = st.sampled_from(
    [frames.frame(HEARTBEAT, 0, b""), frames.method_frame("connection.close"), frames.method_frame("basic.ack")]
)


def _interleave(channels: list[list[bytes]], seed: int) -> list[bytes]:
    turns = [index for index, queue in enumerate(channels) for _ in queue]
    Random(seed).shuffle(turns)
    lines = [iter(queue) for queue in channels]
    return [next(lines[turn]) for turn in turns]


# Frames of up to four channels, in order on each channel.
valid: Strategy = st.builds(
    _interleave,
    st.tuples(
        st.lists(_on_channel_0, max_size=3),
        _on_channel(1),
        _on_channel(2),
        _on_channel(65535),
    ).map(list),
    st.integers(0, 9),
)


def _rearranged(stream: list[bytes], first: int, second: int, what: int) -> list[bytes]:
    if not stream:
        return stream
    first, second = first % len(stream), second % len(stream)
    changed = list(stream)
    if what == 0:
        changed[first], changed[second] = changed[second], changed[first]
    elif what == 1:
        del changed[first]
    else:
        changed.insert(second, changed[first])
    return changed


# Whole frames, of which one is missing, repeated or out of place.
rearranged: Strategy = st.builds(_rearranged, valid, st.integers(0, 99), st.integers(0, 99), st.integers(0, 2))

_any_frame: Strategy = st.builds(
    frames.frame, st.sampled_from([1, 2, 3, 8, 0, 4, 255]), st.integers(0, 2), st.binary(max_size=30)
)
_any_publish: Strategy = st.builds(
    lambda address, header: (
        frames.frame(METHOD, 1, b"\0\x3c\0\x28\0\0" + address) + frames.frame(HEADER, 1, b"\0\x3c\0\0" + header)
    ),
    st.just(b"\0\1q\0") | st.binary(max_size=8),
    st.builds(lambda size, rest: size.to_bytes(8, "big") + rest, st.integers(0, 2**64 - 1), st.binary(max_size=20)),
)


def hostile(corpus: list[bytes]) -> Strategy:
    """Draw bytes that no well-behaved client sends."""
    whole = st.one_of(valid, rearranged).map(b"".join)
    return st.one_of(
        st.binary(max_size=60),
        st.lists(_any_frame, max_size=6).map(b"".join),
        rearranged.map(b"".join),
        st.tuples(_any_publish, whole).map(b"".join),
        strategies.damaged(whole),
        strategies.damaged(strategies.damaged(whole)),
        strategies.damaged(st.sampled_from(corpus)),
    )
