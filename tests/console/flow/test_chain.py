"""The state, in words, of consumers that a producer waits for."""

from __future__ import annotations

from typing import Any

import pytest

from console.flow.chain import state_of

IDLE: dict[str, Any] = {
    "active": True, "prefetch": 0, "in_hand": 0, "full": None, "window_open": True, "settled_seconds": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, "ready for more"),
        ({"prefetch": 5, "in_hand": 5}, "prefetch full: 5 of 5 unacked, no ack yet"),
        (
            {"in_hand": 3, "full": "channel", "settled_seconds": 2.0},
            "3 unacked, its channel is at its limit of unacked messages (amqp.unacked_bytes), last ack 2.0 s ago",
        ),
        ({"active": False, "window_open": False},
         "its client has stopped deliveries (channel.flow), its socket is full"),
    ],
)  # fmt: skip
def test_what_a_consumer_waits_for(facts: dict[str, Any], text: str) -> None:
    assert state_of({**IDLE, **facts}) == text
