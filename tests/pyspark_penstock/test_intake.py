"""Deliveries parsed from bytes, wherever reads cut them."""

from __future__ import annotations

from struct import pack

import pika
from hypothesis import given
from hypothesis import strategies as st

from pyspark_penstock.intake import Delivery, Intake

HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"
PROPERTIES = b"".join(pika.BasicProperties(message_id="m", headers={"a": 1}).encode())
Taken = list[Delivery | bytes]


def frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def delivered(delivery: Delivery, frame_max: int = 100) -> bytes:
    """Return the frames of a delivery, its body in frames of at most `frame_max` bytes."""
    exchange, key = delivery.exchange.encode(), delivery.routing_key.encode()
    method = b"\0\x3c\0\x3c\x03tag" + pack(">Q?", delivery.tag, delivery.redelivered)
    method += bytes([len(exchange)]) + exchange + bytes([len(key)]) + key
    header = b"\0\x3c\0\0" + pack(">Q", len(delivery.body)) + delivery.properties
    bodies = [delivery.body[at : at + frame_max] for at in range(0, len(delivery.body), frame_max)]
    return frame(1, method) + frame(2, header) + b"".join(frame(3, body) for body in bodies)


def taken(data: bytes, cuts: list[int]) -> Taken:
    """Return the deliveries and other frames in bytes that are read in parts."""
    found: Taken = []
    intake = Intake(found.append, found.append)
    for low, high in zip([0, *cuts], [*cuts, len(data)], strict=True):
        intake.feed(data[low:high])
    return found


CANCEL_OK = frame(1, b"\0\x3c\0\x1f\x03tag")
GET_OK = [frame(1, b"\0\x3c\0\x47" + bytes(14)), frame(2, b"\0\x3c\0\0" + pack(">Q", 2) + b"\0\0"), frame(3, b"ab")]
ONE = Delivery(1, False, "", "queue", PROPERTIES, b"")
TWO = Delivery(2, True, "x", "a.b", b"\0\0", bytes(range(250)))
THREE = Delivery(3, False, "x", "ä", PROPERTIES, b"\xce" * 100)
STREAM = HEARTBEAT + delivered(ONE) + delivered(TWO, 40) + b"".join(GET_OK) + HEARTBEAT + delivered(THREE) + CANCEL_OK


@given(st.lists(st.integers(0, len(STREAM))).map(sorted))
def test_deliveries_and_other_frames_come_in_order_wherever_reads_cut_them(cuts: list[int]) -> None:
    assert taken(STREAM, cuts) == [HEARTBEAT, ONE, TWO, *GET_OK, HEARTBEAT, THREE, CANCEL_OK]


def test_each_octet_alone() -> None:
    assert taken(STREAM, list(range(1, len(STREAM)))) == taken(STREAM, [])


def test_frames_of_the_connection_may_come_within_a_content() -> None:
    head, header, body = frame(1, b""), delivered(THREE), frame(3, THREE.body)
    assert taken(header.removesuffix(body) + HEARTBEAT + body + head, []) == [HEARTBEAT, THREE, head]


def test_what_is_no_frame_is_left_to_those_who_refuse_it() -> None:
    assert taken(b"AMQP\0\0\x09\x01", []) == [b"AMQP\0\0\x09\x01"]
    bad = frame(1, CANCEL_OK)[:-1] + b"\0"
    assert taken(delivered(ONE) + bad, []) == [ONE, bad]
    assert taken(delivered(ONE) + b"GARBAGE, NO FRAME", []) == [ONE, b"GARBAGE, NO FRAME"]


def test_what_is_not_utf_8_comes_all_the_same() -> None:
    nbytes = delivered(Delivery(4, False, "", "k", b"\0\0", b"b")).replace(b"\x00\x01k", b"\x00\x01\xff")
    assert taken(nbytes, []) == [Delivery(4, False, "", "�", b"\0\0", b"b")]
