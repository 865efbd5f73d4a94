# cython: boundscheck=False, wraparound=False, cdivision=True, annotation_typing=False
"""One pass over a socket's input: frames in, events out (AMQP 0-9-1, 2.3.5 and 4.2).

Consecutive publishes on a channel with the same method frame become one `PublishRun`, whose contents are copied once,
into a batch. Consecutive settlements (ack, nack, reject) become one `SettleRun`. Every other method is an event of its
own. A content that is not whole within one read is put together in an `Assembly`: its bytes are copied as they arrive
and never read twice.

The scanner never raises because of a peer's input: it emits a `Failure` with the reply code and ignores the rest.
"""

from __future__ import annotations

import struct
from typing import Any

import cython

if not cython.compiled:
    from penstock.batch.batch_cy import HAS_CC as C_HAS_CC
    from penstock.batch.batch_cy import HAS_DIRECT_REPLY_TO as C_HAS_DIRECT_REPLY_TO
    from penstock.batch.batch_cy import HAS_EXPIRATION as C_HAS_EXPIRATION
    from penstock.batch.batch_cy import HAS_HEADERS as C_HAS_HEADERS
    from penstock.batch.batch_cy import HAS_PRIORITY as C_HAS_PRIORITY
    from penstock.batch.batch_cy import HAS_USER_ID as C_HAS_USER_ID
    from penstock.batch.batch_cy import ODD_EXPIRATION as C_ODD_EXPIRATION
    from penstock.batch.batch_cy import PERSISTENT as C_PERSISTENT
    from penstock.batch.batch_cy import BatchBuilder
    from penstock.batch.pointers import (
        Pointer,
        address,
        address_of_bytearray,
        address_of_bytes,
        equal,
        load16,
        load32,
        load64,
        put16,
        put32,
        put64,
        read_bytes,
        resize,
    )
    from penstock.batch.settlement_rows import SETTLE_ACK, SETTLE_REJECT, SETTLE_REQUEUE

    METHOD, HEADER, BODY, HEARTBEAT, END = 1, 2, 3, 8, 0xCE
    PUBLISH, ACK, REJECT, NACK = (60 << 16 | method for method in (40, 80, 90, 120))
    SETTLEMENT_SIZE = 16
    # Room allocated at once for an announced body; the rest is allocated as its bytes arrive.
    C_AT_ONCE = 131072
    # A body of this size or larger goes into the arena.
    C_LARGE = 16384
    # Maximum number of unfinished bodies, on as many channels, for an announced body to go into the arena.
    C_FEW = 8
    # Memory that an unfinished content counts in addition to its bytes.
    C_ASSEMBLY = 1024
    # A run goes into the arena too if at least this much of the read remains at its start.
    C_MANY = 65536


class Method:
    """A method frame other than a publish or a settlement: its channel and payload."""

    def __init__(self, channel: int, payload: bytes) -> None:
        self.channel = channel
        self.payload = payload


class Failure:
    """A violation of the protocol by the peer: a reply code, its explanation and the channel it happened on."""

    def __init__(self, code: int, text: str, channel: int) -> None:
        self.code = code
        self.text = text
        self.channel = channel


class Oversize:
    """An announced body above the broker's maximum; it is skipped."""

    def __init__(self, channel: int, size: int) -> None:
        self.channel = channel
        self.size = size


class PublishRun:
    """Publishes with the same method frame: `address` is exchange and routing key as two short strings."""

    def __init__(self, channel: int, frame: bytes, address: bytes, bits: int) -> None:
        self.channel = channel
        self.frame = frame
        self.address = address
        self.mandatory = bits & 1 != 0
        self.immediate = bits & 2 != 0
        self.builder = BatchBuilder()
        self.batch: Any = None


def again(run: PublishRun) -> PublishRun:
    """An empty run with the same method frame."""
    return PublishRun(run.channel, run.frame, run.address, run.mandatory | run.immediate << 1)


class SettleRun:
    """Settlements in the order received, in rows, little-endian.

    A row is the delivery tag (8 bytes), the kind (4), multiple (2) and the id of the method (2).
    """

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.rows = bytearray()
        self.count = 0

    def add(self, tag: int, kind: int, multiple: int, method: int) -> int:
        """Append a row."""
        if (self.count + 1) * SETTLEMENT_SIZE > len(self.rows):
            resize(self.rows, max(2 * len(self.rows), 4 * SETTLEMENT_SIZE))
        p = address_of_bytearray(self.rows)
        put64(p, self.count * SETTLEMENT_SIZE, tag)
        put32(p, self.count * SETTLEMENT_SIZE + 8, kind)
        put16(p, self.count * SETTLEMENT_SIZE + 12, multiple)
        put16(p, self.count * SETTLEMENT_SIZE + 14, method)
        self.count += 1
        return 0

    def method_of(self, tag: int) -> int:
        """The id of the method of the first settlement of a tag, 0 if there is none."""
        for found, _, _, method in struct.iter_unpack("<QIHH", self.rows[: self.count * SETTLEMENT_SIZE]):
            if found == tag:
                return int(method)
        return 0


class Assembly:
    """An unfinished content: it expects its header, or `body_left` more bytes; `held` are the bytes it keeps."""

    def __init__(self, run: PublishRun) -> None:
        self.run = run
        self.expects_header = True
        self.discards = False
        self.body_left = 0
        self.held = 0


class Scanner:
    """The scanner of one connection. `frame_max` includes the 8 bytes around a payload; `max_body` is in bytes.

    `arena` has blocks for large bodies (`penstock.batch.arena`), None if there is none. `large`: whether the last scan
    met large bodies. `unfinished` is the number of bytes kept of unfinished contents. `scans` have used
    `scanned` bytes.
    """

    def __init__(self, frame_max: int, max_body: int, arena: Any = None) -> None:
        self.frame_max = frame_max
        self.max_body = max_body
        self.arena = arena
        self.failed = False
        self.large = False
        self.unfinished = 0
        self.scans = 0
        self.scanned = 0
        self.assemblies: dict[int, Assembly] = {}
        self.streaming: Any = None
        self.frame_left = 0
        self.events: list[object] = []
        self.run: Any = None
        self.settling: Any = None

    def scan(self, data: bytearray, start: int, end: int, events: list[object]) -> int:
        """Scan the bytes from `start` to `end`, append the events to `events`, return the position of the unscanned
        rest.
        """
        p = address(data)
        pos = start
        self.scans += 1
        self.large = False
        self.events = events
        while not self.failed:
            if self.streaming is not None:
                pos = self.stream(p, pos, end)
                if self.streaming is not None:
                    break
                continue
            if end - pos < 8:
                break
            kind = p[pos]
            channel = load16(p, pos + 1)
            size = load32(p, pos + 3)
            if size > self.frame_max:
                begins = read_bytes(p, pos + 7, min(16, end - pos - 7))
                self.fail(501, frame_too_large(kind, begins, size, self.frame_max))
                break
            if kind == BODY:
                if self.body_frame(size, channel):
                    pos += 7
                continue
            if end - pos < size + 8:
                if not (kind == METHOD or kind == HEADER or kind == HEARTBEAT):
                    self.fail(501, f"type {kind} is no frame type")
                break
            next_pos = pos + size + 8
            if p[next_pos - 1] != END:
                self.fail(501, f"type {kind}, all octets = {p[next_pos - 1]}: invalid frame end marker", channel)
            elif kind == METHOD:
                if size >= 4 and load32(p, pos + 7) == PUBLISH and channel != 0:
                    next_pos = self.publish_frame(p, pos, size, end, channel)
                else:
                    self.method_frame(p, pos + 7, size, channel)
            elif kind == HEADER:
                self.header_frame(p, pos + 7, size, channel)
            elif kind == HEARTBEAT:
                if channel != 0 or size != 0:
                    self.fail(505, "a heartbeat has channel 0 and no payload", channel)
            else:
                self.fail(501, f"type {kind} is no frame type", channel)
            pos = next_pos
        self.events = []
        self.run = None
        self.settling = None
        for event in events:
            if isinstance(event, PublishRun):
                run = event
                run.batch = run.builder.finish()
        if self.failed:
            pos = end
        self.scanned += pos - start
        return pos

    def end(self) -> None:
        """Drop all unfinished contents; nothing more is scanned."""
        self.failed = True
        self.assemblies.clear()
        self.unfinished = 0
        self.streaming = None

    def abandon(self) -> None:
        """Keep no contents any more, neither unfinished nor future ones, as the connection is being closed."""
        self.max_body = -1
        self.unfinished = 0
        for assembly in self.assemblies.values():
            let_go(assembly)

    def largest(self) -> int:
        """The bytes kept of the largest unfinished content; 0 if there is none."""
        most = 0
        for assembly in self.assemblies.values():
            most = max(most, held_of(assembly))
        return most

    def publish_frame(self, p: Pointer, pos: int, size: int, end: int, channel: int) -> int:
        """Read a publish and, if it is whole within the read, its content; return the position of the next frame."""
        if self.assemblies and channel in self.assemblies:
            self.unexpected_method(channel)
            return pos
        run = self.run
        if run is None or len(run.frame) != size + 8 or not equal(p, pos, address_of_bytes(run.frame), 0, size + 8):
            run = self.open_run(p, pos, size, channel)
            if run is None:
                return pos
            if end - pos >= C_MANY and self.arena is not None:
                self.use_arena(run, 0)
        whole = self.whole_content(p, pos + size + 8, end, channel, run)
        if whole:
            if self.run is not run:
                self.run = run
                self.settling = None
                self.events.append(run)
            return self.repeats(p, whole, size + 8, end, channel, run)
        if run is self.run:
            run = again(run)
        if not self.failed:
            self.begin(channel, Assembly(run))
        return pos + size + 8

    def repeats(self, p: Pointer, pos: int, size: int, end: int, channel: int, run: PublishRun) -> int:
        """Read the following publishes that have the run's method frame, of `size` bytes, and are whole within the
        read; return the position of the next frame.
        """
        while end - pos >= size and equal(p, pos, address_of_bytes(run.frame), 0, size):
            after = self.whole_content(p, pos + size, end, channel, run)
            if after == 0:
                break
            pos = after
        return pos

    def open_run(self, p: Pointer, pos: int, size: int, channel: int) -> PublishRun | None:
        """Decode a publish into an empty run; None after a failure."""
        # ticket, then exchange and routing key as short strings, then the bits
        frame_size = size + 8
        exchange = pos + 13
        if size >= 9:
            key = exchange + 1 + p[exchange]
            if key < pos + size + 7 and key + 1 + p[key] == pos + size + 6:
                bits = p[pos + size + 6]
                return PublishRun(
                    channel, read_bytes(p, pos, frame_size), read_bytes(p, exchange, pos + size + 6 - exchange), bits
                )
        self.fail(501, "method 60.40 cannot be decoded", channel)
        return None

    def whole_content(self, p: Pointer, pos: int, end: int, channel: int, run: PublishRun) -> int:
        """Copy the content at `pos` if it is whole within the read and has at most one body frame; return its end.

        0 if it is not, if the content is not acceptable, or if the block of the run has no room for it.
        """
        if end - pos < 22 or p[pos] != HEADER or load16(p, pos + 1) != channel:
            return 0
        size = load32(p, pos + 3)
        if size < 14 or size > self.frame_max or end - pos < size + 8 or p[pos + 7 + size] != END:
            return 0
        body_size = load64(p, pos + 11)
        if load16(p, pos + 7) != 60 or p[pos + 11] > 127 or body_size > self.max_body:
            return 0
        body = pos + size + 8
        after = body
        if body_size:
            if body_size > self.frame_max or end - body < body_size + 8 or p[body] != BODY:
                return 0
            if load16(p, body + 1) != channel or load32(p, body + 3) != body_size or p[body + 7 + body_size] != END:
                return 0
            after = body + body_size + 8
            body += 7
        flags = 0 if size == 14 and load16(p, pos + 19) == 0 else content_flags(p, pos + 7, size)
        if flags < 0:
            return 0
        builder = run.builder
        if builder.block is not None and builder.used + len(run.address) + size + body_size > builder.capacity:
            return 0
        if body_size >= C_LARGE:
            self.large = True
            if self.arena is not None:
                self.use_arena(run, size + body_size)
        builder.append(address_of_bytes(run.address), len(run.address), p, pos + 7, size, body, body_size, flags)
        return after

    def use_arena(self, run: PublishRun, nbytes: int) -> int:
        """Build the contents of an empty run in a block of the arena, if a large enough block is free."""
        builder = run.builder
        if builder.count == 0:
            builder.use(self.arena.lend(), len(run.address) + nbytes)
        return 0

    def method_frame(self, p: Pointer, pos: int, size: int, channel: int) -> bool:
        """Read a method frame other than a publish."""
        if self.assemblies and channel in self.assemblies:
            return self.unexpected_method(channel)
        if size < 4:
            return self.fail(501, f"a method frame of {size} bytes names no method", channel)
        id = load32(p, pos)
        if (id == ACK or id == NACK or id == REJECT) and channel != 0:
            return self.settle_frame(p, pos, size, channel, id)
        self.run = None
        self.settling = None
        self.events.append(Method(channel, read_bytes(p, pos, size)))
        return True

    def settle_frame(self, p: Pointer, pos: int, size: int, channel: int, id: int) -> bool:
        """Add a settlement to the current run, or begin a run."""
        if size != 13:
            return self.fail(501, f"method 60.{id & 0xFFFF} cannot be decoded", channel)
        bits = p[pos + 12]
        kind = SETTLE_ACK
        multiple = bits & 1
        if id == NACK:
            kind = SETTLE_REQUEUE if bits & 2 else SETTLE_REJECT
        elif id == REJECT:
            kind = SETTLE_REQUEUE if bits & 1 else SETTLE_REJECT
            multiple = 0
        if self.settling is None or self.settling.channel != channel:
            self.settling = SettleRun(channel)
            self.run = None
            self.events.append(self.settling)
        self.settling.add(load64(p, pos + 4), kind, multiple, id & 0xFFFF)
        return True

    def header_frame(self, p: Pointer, pos: int, size: int, channel: int) -> bool:
        """Read the content header of an unfinished content."""
        assembly = self.assemblies.get(channel)
        if assembly is None:
            return self.fail(505, "expected method frame, got non method frame instead", channel)
        if not assembly.expects_header:
            return self.fail(505, "expected content body, got non content body frame instead", channel)
        if size < 14:
            return self.fail(501, f"a content header of {size} bytes cannot be decoded", channel)
        if load16(p, pos) != 60:
            text = f"expected content header for class 60, got one for class {load16(p, pos)} instead"
            return self.fail(505, text, channel)
        flags = content_flags(p, pos, size)
        body_size = load64(p, pos + 4)
        if flags < 0 or p[pos + 4] > 127:
            return self.fail(501, "the properties of a content header cannot be decoded", channel)
        assembly.expects_header = False
        assembly.body_left = body_size
        if body_size > self.max_body:
            assembly.discards = True
            self.run = None
            self.settling = None
            self.events.append(Oversize(channel, body_size))
        else:
            run = assembly.run
            builder = run.builder
            if body_size >= C_LARGE and self.arena is not None and len(self.assemblies) <= C_FEW:
                self.use_arena(run, size + body_size)
            self.keep(assembly, len(run.address) + size)
            builder.open_entry(len(run.address), size, body_size, flags)
            builder.room(len(run.address) + size + min(body_size, C_AT_ONCE))
            builder.write(address_of_bytes(run.address), 0, len(run.address))
            builder.write(p, pos, size)
        if body_size == 0:
            self.complete(assembly)
        return True

    def body_frame(self, size: int, channel: int) -> bool:
        """Begin a body frame; its payload follows by `stream`."""
        assembly = self.assemblies.get(channel)
        if assembly is None:
            return self.fail(505, "expected method frame, got non method frame instead", channel)
        if assembly.expects_header:
            text = "expected content header for class 60, got non content header frame instead"
            return self.fail(505, text, channel)
        if size > assembly.body_left:
            text = f"a body frame of {size} bytes where {assembly.body_left} are left of the body"
            return self.fail(501, text, channel)
        self.streaming = assembly
        self.frame_left = size
        return True

    def stream(self, p: Pointer, pos: int, end: int) -> int:
        """Read the available bytes of the current body frame, and its end marker."""
        assembly = self.streaming
        size = min(self.frame_left, end - pos)
        if size:
            self.large |= size >= C_LARGE
            if not assembly.discards:
                builder = assembly.run.builder
                builder.write(p, pos, size)
                assembly.held += size
                self.unfinished += size
            assembly.body_left -= size
            self.frame_left -= size
            pos += size
        if self.frame_left == 0 and pos < end:
            self.streaming = None
            if p[pos] != END:
                self.fail(501, f"type 3, all octets = {p[pos]}: invalid frame end marker", assembly.run.channel)
            elif assembly.body_left == 0:
                self.complete(assembly)
                if end - pos >= C_MANY and self.arena is not None and assembly.run.builder.block is None:
                    self.run = None
            pos += 1
        return pos

    def begin(self, channel: int, assembly: Assembly) -> int:
        """Begin a content that is not whole within the read."""
        self.assemblies[channel] = assembly
        return self.keep(assembly, C_ASSEMBLY)

    def keep(self, assembly: Assembly, nbytes: int) -> int:
        """Count bytes kept of an unfinished content."""
        assembly.held += nbytes
        self.unfinished += nbytes
        return 0

    def complete(self, assembly: Assembly) -> bool:
        """Emit a finished content, unless it is discarded."""
        del self.assemblies[assembly.run.channel]
        self.unfinished -= assembly.held
        if not assembly.discards:
            self.run = assembly.run
            self.settling = None
            self.events.append(assembly.run)
        return True

    def unexpected_method(self, channel: int) -> bool:
        """Fail because a content was expected on the channel."""
        assembly = self.assemblies[channel]
        if assembly.expects_header:
            text = "expected content header for class 60, got non content header frame instead"
        else:
            text = "expected content body, got non content body frame instead"
        return self.fail(505, text, channel)

    def fail(self, code: int, text: str, channel: int = 0) -> bool:
        """Emit a failure and stop scanning."""
        self.failed = True
        self.assemblies.clear()
        self.unfinished = 0
        self.streaming = None
        self.events.append(Failure(code, text, channel))
        return False


def held_of(assembly: Assembly) -> int:
    return assembly.held


def let_go(assembly: Assembly) -> None:
    """Drop the kept bytes of an unfinished content, and discard the rest."""
    assembly.discards = True
    assembly.run = again(assembly.run)
    assembly.held = 0


def frame_too_large(kind: int, data: bytes, size: int, frame_max: int) -> str:
    """RabbitMQ's text for a frame above the maximum."""
    return f"type {kind}, first 16 octets = <<{','.join(map(str, data))}>>: {{frame_too_large,{size},{frame_max - 8}}}"


def content_flags(p: Pointer, start: int, size: int) -> int:
    """The flags of a content header, or -1 if its properties do not fit their frame (AMQP 0-9-1, 4.2.6.1)."""
    bits = load16(p, start + 12)
    if bits == 0:
        return 0 if size == 14 else -1
    at = start + 14
    end = start + size
    flags = 0
    if bits & 3:
        return -1
    bit = 15
    while bit >= 2:
        if bits >> bit & 1:
            if bit == 13:
                if end - at < 4:
                    return -1
                length = load32(p, at)
                within = -1 if end - at - 4 < length else table_flags(p, at + 4, at + 4 + length, True, 0)
                if within < 0:
                    return -1
                flags |= within | C_HAS_HEADERS
                at += 4 + length
            elif bit == 12 or bit == 11:
                if end - at < 1:
                    return -1
                if bit == 11:
                    flags |= C_HAS_PRIORITY
                elif p[at] == 2:
                    flags |= C_PERSISTENT
                at += 1
            elif bit == 6:
                at += 8
                if at > end:
                    return -1
            else:
                if end - at < 1 or end - at - 1 < p[at]:
                    return -1
                if bit == 9:
                    if asks_for_direct_reply(p, at):
                        flags |= C_HAS_DIRECT_REPLY_TO
                elif bit == 8:
                    flags |= C_HAS_EXPIRATION
                    if not plain_number(p, at):
                        flags |= C_ODD_EXPIRATION
                elif bit == 4:
                    flags |= C_HAS_USER_ID
                at += 1 + p[at]
        bit -= 1
    return flags if at == end else -1


def asks_for_direct_reply(p: Pointer, at: int) -> bool:
    """Whether the short string at `at` is `amq.rabbitmq.reply-to`, compared four bytes at a time."""
    return (
        p[at] == 21
        and load32(p, at + 1) == 0x616D712E
        and load32(p, at + 5) == 0x72616262
        and load32(p, at + 9) == 0x69746D71
        and load32(p, at + 13) == 0x2E726570
        and load32(p, at + 17) == 0x6C792D74
        and p[at + 21] == 111
    )


def plain_number(p: Pointer, at: int) -> bool:
    """Whether the short string at `at` is a number of 1 to 11 digits, which never exceeds the maximum life of a
    message.
    """
    size = p[at]
    if size < 1 or size > 11:
        return False
    for i in range(at + 1, at + 1 + size):
        if p[i] < 48 or p[i] > 57:
            return False
    return True


def table_flags(p: Pointer, start: int, end: int, named: bool, depth: int) -> int:
    """C_HAS_CC or 0 for the inside of a field table (`named`) or of an array; -1 if it cannot be decoded."""
    at = start
    flags = 0
    if depth > 64:
        return -1
    while at < end:
        if named:
            name = p[at]
            if end - at < 2 + name:
                return -1
            at += 1 + name
            if depth == 0 and (name == 2 or (name == 3 and p[at - 3] == 66)) and p[at - 2] == 67 and p[at - 1] == 67:
                flags = C_HAS_CC
        size = value_size(p, at, end, depth)
        if size < 0:
            return -1
        at += size
    return flags


def value_size(p: Pointer, at: int, end: int, depth: int) -> int:
    """The size of the field value at `at` including its type, or -1 if it is no value or exceeds its table."""
    kind = p[at]
    if kind == 83 or kind == 120 or kind == 70 or kind == 65:  # S x F A
        if end - at < 5:
            return -1
        size = load32(p, at + 1)
        if end - at - 5 < size:
            return -1
        if (kind == 70 or kind == 65) and table_flags(p, at + 5, at + 5 + size, kind == 70, depth + 1) < 0:
            return -1
        size += 5
    elif kind == 116 or kind == 98 or kind == 66:  # t b B
        size = 2
    elif kind == 115 or kind == 117:  # s u
        size = 3
    elif kind == 73 or kind == 105 or kind == 102:  # I i f
        size = 5
    elif kind == 108 or kind == 76 or kind == 100 or kind == 84:  # l L d T
        size = 9
    elif kind == 68:  # D
        size = 6
    elif kind == 86:  # V
        size = 1
    else:
        return -1
    return size if size <= end - at else -1
