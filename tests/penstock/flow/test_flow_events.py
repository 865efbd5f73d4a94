"""Events of flow control as messages: their address, and the facts in headers and body."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from penstock.amqp.properties import decode_properties
from penstock.batch.batch_cy import HAS_HEADERS
from penstock.flow.flow_events import SHORT_STRING_MAX, event_batch, routing_key

FACTS: dict[str, Any] = {"event": "stopped", "vhost": "/", "queue": "orders", "depth": 12, "since": 1.5, "near": None}


def record(facts: dict[str, Any], seconds: int = 1700000000) -> tuple[bytes, bytes, bytes, int]:
    """Return exchange and routing key, properties, body, and flags of the event's only message."""
    batch = event_batch(facts, seconds)
    assert len(batch) == 1
    address, header, body = batch.record(0)
    assert bytes(header[:4]) == b"\x00\x3c\x00\x00" and int.from_bytes(header[4:12], "big") == len(body)
    return bytes(address), bytes(header[12:]), bytes(body), batch.flags(0)


def test_the_routing_key_names_event_vhost_and_queue() -> None:
    assert routing_key(FACTS) == "stopped./.orders"
    assert record(FACTS)[0] == b"\x08amq.flow" + b"\x10stopped./.orders"


def test_headers_and_body_carry_the_same_facts() -> None:
    _, nbytes, body, flags = record(FACTS)
    properties = decode_properties(nbytes)
    assert properties["headers"] == orjson.loads(body) == FACTS
    assert {name: value for name, value in properties.items() if name != "headers"} == {
        "content_type": "application/json", "timestamp": 1700000000, "type": "flow.stopped", "app_id": "penstock",
    }  # fmt: skip
    assert flags & HAS_HEADERS


def test_a_queue_need_not_be_named_in_utf_8() -> None:
    """Headers keep the bytes; JSON cannot."""
    address, nbytes, body, _ = record({**FACTS, "queue": "caf\udce9"})
    assert address.endswith(b"\x0estopped./.caf\xe9")
    assert decode_properties(nbytes)["headers"]["queue"] == b"caf\xe9"
    assert orjson.loads(body)["queue"] == "caf\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("length", [SHORT_STRING_MAX - 10, SHORT_STRING_MAX - 9, SHORT_STRING_MAX])
def test_a_routing_key_is_cut_at_255_bytes(length: int) -> None:
    address, nbytes, _, _ = record({**FACTS, "queue": "q" * length})
    key = b"stopped./." + b"q" * min(length, SHORT_STRING_MAX - 10)
    assert address == b"\x08amq.flow" + bytes([len(key)]) + key
    assert decode_properties(nbytes)["headers"]["queue"] == "q" * length
