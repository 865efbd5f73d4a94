"""The events of a stream of frames, by the plainest reading and by a scanner.

`read` is the scanner's independent reference. It follows the specification (2.3.5, 4.2) frame by frame, and detects a
mistake as early as possible: in the first seven bytes of a frame, then in the whole frame.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import pairwise
from types import ModuleType
from typing import Any, cast

from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.properties import decode_properties
from penstock.batch.batch_cy import (
    HAS_CC,
    HAS_DIRECT_REPLY_TO,
    HAS_EXPIRATION,
    HAS_HEADERS,
    HAS_PRIORITY,
    HAS_USER_ID,
    ODD_EXPIRATION,
    PERSISTENT,
)
from tests import frames
from tests.frames import BODY, HEADER, HEARTBEAT, METHOD

# ("publish", channel, address, mandatory, immediate, header, body, flags), ("settle", channel, tag, kind, multiple),
# ("method", channel, payload), ("oversize", channel, size), ("failure", code): one for each message or settlement.
Event = tuple[Any, ...]

SCAN = "penstock.amqp.scan_cy"
ACK, REQUEUE, REJECT = 0, 1, 2
# Limits of the tests' streams: small, so that damaged streams reach every limit.
FRAME_MAX = 400
MAX_BODY = 90


class Failed(Exception):
    """The stream breaks the protocol; the argument is the reply code."""


class _Content:
    def __init__(self, said: tuple[Any, ...]) -> None:
        self.said = said
        self.header: bytes | None = None
        self.size = 0
        self.body = b""


def read(data: bytes, frame_max: int = FRAME_MAX, max_body: int = MAX_BODY) -> list[Event]:
    """Return the events of a stream, up to its first mistake."""
    events: list[Event] = []
    contents: dict[int, _Content] = {}
    try:
        for kind, channel, payload in _frames(data, frame_max, contents):
            if kind == METHOD:
                events += _method(channel, payload, contents)
            elif kind == HEADER:
                events += _header(channel, payload, contents, max_body)
            elif kind == BODY:
                contents[channel].body += payload
            elif channel or payload:
                raise Failed(505)
            content = contents.get(channel)
            if content and content.header is not None and len(content.body) == content.size:
                del contents[channel]
                if content.size <= max_body:
                    events.append((*content.said, content.header, content.body, _flags(content.header)))
    except Failed as failed:
        events.append(("failure", failed.args[0]))
    return events


def _frames(data: bytes, frame_max: int, contents: dict[int, _Content]) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while len(data) - at >= 8:
        kind, channel, size = struct.unpack_from(">BHI", data, at)
        if size > frame_max or kind not in (METHOD, HEADER, BODY, HEARTBEAT):
            raise Failed(501)
        if kind == BODY:
            content = contents.get(channel)
            if content is None or content.header is None:
                raise Failed(505)
            if len(content.body) + size > content.size:
                raise Failed(501)
        if len(data) - at < size + 8:
            return
        if data[at + 7 + size] != frames.FRAME_END:
            raise Failed(501)
        yield kind, channel, data[at + 7 : at + 7 + size]
        at += size + 8


def _method(channel: int, payload: bytes, contents: dict[int, _Content]) -> Iterator[Event]:
    if channel in contents:
        raise Failed(505)
    if len(payload) < 4:
        raise Failed(501)
    name = frames.METHODS_BY_ID.get(struct.unpack_from(">HH", payload))
    if channel == 0 or name is None or name.name not in _OWN_EVENTS:
        yield "method", channel, payload
        return
    arguments = frames.Reader(payload[4:])
    try:
        if name.name == "basic.publish":
            arguments.take(2)
            address = b"".join(frames.shortstr(arguments.take(arguments.number(">B"))) for _ in range(2))
            bits = arguments.number(">B")
            contents[channel] = _Content(("publish", channel, address, bits & 1 == 1, bits & 2 == 2))
        else:
            tag, bits = arguments.number(">Q"), arguments.number(">B")
    except (IndexError, struct.error):
        raise Failed(501) from None
    if arguments.at != len(payload) - 4:
        raise Failed(501)
    if name.name != "basic.publish":
        yield ("settle", channel, tag, *_settlement(name.name, bits))


_OWN_EVENTS = {"basic.publish", "basic.ack", "basic.nack", "basic.reject"}


def _settlement(name: str, bits: int) -> tuple[int, int]:
    """Return kind and multiple."""
    if name == "basic.ack":
        return ACK, bits & 1
    if name == "basic.nack":
        return REQUEUE if bits & 2 else REJECT, bits & 1
    return REQUEUE if bits & 1 else REJECT, 0


def _header(channel: int, payload: bytes, contents: dict[int, _Content], max_body: int) -> Iterator[Event]:
    content = contents.get(channel)
    if content is None or content.header is not None:
        raise Failed(505)
    if len(payload) < 14:
        raise Failed(501)
    class_id, _, content.size = struct.unpack_from(">HHQ", payload)
    if class_id != 60:
        raise Failed(505)
    try:
        decode_properties(payload[12:])
    except FrameSyntaxError:
        raise Failed(501) from None
    if content.size >= 2**63:
        raise Failed(501)
    content.header = payload
    if content.size > max_body:
        yield "oversize", channel, content.size


def _flags(header: bytes) -> int:
    """Return the flags of a batch's row, from the properties themselves."""
    properties = decode_properties(header[12:])
    flags = PERSISTENT if properties.get("delivery_mode") == 2 else 0
    for name, flag in (
        ("headers", HAS_HEADERS),
        ("expiration", HAS_EXPIRATION),
        ("priority", HAS_PRIORITY),
        ("user_id", HAS_USER_ID),
    ):
        if name in properties:
            flags |= flag
    flags |= HAS_CC if {"CC", "BCC"} & set(cast("dict[str, object]", properties.get("headers", {}))) else 0
    flags |= HAS_DIRECT_REPLY_TO if properties.get("reply_to") == "amq.rabbitmq.reply-to" else 0
    odd = re.fullmatch(r"[0-9]{1,11}", str(properties.get("expiration", "0"))) is None
    return flags | (ODD_EXPIRATION if odd else 0)


def said(events: list[Any], module: ModuleType) -> list[Event]:
    """Return the scanner's events one by one, so that they do not depend on how reads cut the stream."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, module.PublishRun):
            assert len(event.batch) > 0
            for i in range(len(event.batch)):
                address, header, body = event.batch.record(i)
                assert address == event.address
                what = ("publish", event.channel, address, event.mandatory, event.immediate)
                found.append((*what, header, body, event.batch.flags(i)))
        elif isinstance(event, module.SettleRun):
            rows = struct.iter_unpack("<QIHH", event.rows[: 16 * event.count])
            found += [("settle", event.channel, *row[:3]) for row in rows]
        elif isinstance(event, module.Method):
            found.append(("method", event.channel, event.payload))
        elif isinstance(event, module.Oversize):
            found.append(("oversize", event.channel, event.size))
        else:
            assert isinstance(event, module.Failure) and event.text
            found.append(("failure", event.code))
    return found


class Reads:
    """A connection's receive buffer in front of a scanner: it receives a stream in pieces, and keeps the unused rest.

    `round_it` surrounds the bytes of each read: a scanner that reads beyond them gives different events.
    """

    def __init__(
        self, module: ModuleType, frame_max: int = FRAME_MAX, max_body: int = MAX_BODY, round_it: bytes = b""
    ) -> None:
        self.module = module
        self.scanner = module.Scanner(frame_max, max_body)
        self.round_it = round_it
        self.rest = b""

    def feed(self, piece: bytes) -> list[Any]:
        """Return the events of one read."""
        data = self.rest + piece
        start = len(self.round_it)
        end = start + len(data)
        events: list[Any] = []
        used = self.scanner.scan(bytearray(self.round_it + data + self.round_it), start, end, events)
        assert start <= used <= end
        self.rest = data[used - start :]
        return events

    def say(self, pieces: list[bytes]) -> list[Event]:
        """Return the events of a stream that arrives in these pieces."""
        return [event for piece in pieces for event in said(self.feed(piece), self.module)]


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """Return a stream cut at the given places, modulo its length."""
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(places)]
