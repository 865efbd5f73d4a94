"""Methods that no client library sends: well-formed frames with any bytes, lengths, types and values inside.

All randomness comes from the `random.Random` that is passed, so that a seed reproduces it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Any

from router.authority.queue_arguments import KNOWN
from tests.frames import (
    BODY,
    HEADER,
    METHOD,
    METHODS,
    PROPERTIES,
    Signature,
    frame,
    longstr,
    shortstr,
)

NAMES = (
    "mine",
    "mine too",
    "amq.direct",
    "amq.topic",
    "amq.headers",
    "amq.fanout",
    "amq.rabbitmq.reply-to",
    "amq.",
    "",
)
TEXTS = (b"\xff\xfe", b"", b"classic", b"quorum", b"flow", b"all", b"-1", b"0", b"60000", b"\x00", "é".encode())
NUMBERS = (
    0,
    1,
    2,
    7,
    127,
    128,
    255,
    256,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
WIDTHS = {"octet": 1, "short": 2, "long": 4, "longlong": 8}
TYPES = b"tbBsuIilLfdTVDSxFA"
SIZES = {b"t": 1, b"b": 1, b"B": 1, b"s": 2, b"u": 2, b"I": 4, b"i": 4, b"f": 4, b"D": 5, b"l": 8, b"L": 8, b"d": 8,
         b"T": 8, b"V": 0}  # fmt: skip
ARGUMENTS = (*sorted(KNOWN), "alternate-exchange", "x-match", "x-priority", "x-lease", "x-lease-expires", "CC", "BCC",
             "x-death", "whatever")  # fmt: skip
DEEPEST = 4
PLAIN = ("basic.get", "basic.ack", "basic.consume", "basic.publish", "queue.declare", "tx.select", "confirm.select")


def text(random: Random) -> bytes:
    """Return up to 255 bytes: an existing name, a word, or noise."""
    kind = random.random()
    if kind < 0.6:
        return random.choice(NAMES).encode()
    if kind < 0.9:
        return random.choice(TEXTS)
    return random.randbytes(random.choice((1, 17, 255)))


def value(random: Random, depth: int = 0) -> bytes:
    """Return a typed value of a table."""
    kind = bytes([random.choice(TYPES)])
    if kind in SIZES:
        size = SIZES[kind]
        return kind + (number(random, size) if random.random() < 0.7 else random.randbytes(size))
    if kind in (b"S", b"x"):
        return kind + longstr(text(random))
    if depth == DEEPEST:
        return b"V"
    if kind == b"F":
        return kind + table(random, depth + 1)
    return kind + longstr(b"".join(value(random, depth + 1) for _ in range(random.randrange(4))))


def table(random: Random, depth: int = 0) -> bytes:
    """Return a table with its length, of known arguments and others."""
    fields = (shortstr(random.choice(ARGUMENTS)) + value(random, depth) for _ in range(random.randrange(4)))
    return longstr(b"".join(fields))


def number(random: Random, size: int) -> bytes:
    """Return a number of `size` bytes."""
    whole: int = 256**size
    return (random.choice(NUMBERS) % whole).to_bytes(size, "big")


def plain(random: Random, domain: str) -> bytes:
    """Return a value of a field that is not a bit."""
    if domain in WIDTHS:
        return number(random, WIDTHS[domain])
    made: dict[str, Callable[[], bytes]] = {
        "shortstr": lambda: shortstr(text(random)),
        "longstr": lambda: longstr(text(random)),
        "table": lambda: table(random),
    }
    return made[domain]()


def payload(random: Random, signature: Signature) -> bytes:
    """Return a method with its arguments; now and then cut short, or followed by more."""
    out = bytearray(struct.pack(">HH", signature.class_id, signature.method_id))
    before = ""
    for _, domain in signature.arguments:
        if domain != "bit":
            out += plain(random, domain)
        elif before != "bit":
            out.append(random.randrange(256) if random.random() < 0.1 else random.randrange(32))
        before = domain
    if random.random() < 0.02:
        del out[random.randrange(4, len(out) + 1) :]
    elif random.random() < 0.02:
        out += random.randbytes(3)
    return bytes(out)


def content(random: Random, channel: int) -> bytes:
    """Return header and body of a publish."""
    body = random.randbytes(random.choice((0, 1, 300)))
    flags, values = 0, b""
    for at, (_, domain) in enumerate(PROPERTIES):
        if random.random() < 0.3:
            flags |= 1 << (15 - at)
            values += plain(random, domain)
    header = frame(HEADER, channel, struct.pack(">HHQH", 60, 0, len(body), flags) + values)
    return header + (frame(BODY, channel, body) if body else b"")


def methods(random: Random, count: int) -> bytes:
    """Return `count` methods on channels 1 and 2, both of clients and of brokers only."""
    out = bytearray()
    for _ in range(count):
        name = random.choice(PLAIN) if random.random() < 0.5 else random.choice(sorted(METHODS))
        channel: Any = 0 if name.startswith("connection.") else random.choice((1, 1, 1, 2))
        out += frame(METHOD, channel, payload(random, METHODS[name]))
        if name == "basic.publish":
            out += content(random, channel)
    return bytes(out)
