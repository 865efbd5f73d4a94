"""Channels that a stop would concern."""

from __future__ import annotations

from typing import Any

import pytest

from console.flow.matching import Selector, matching
from router.model.records import Queue

QUEUES = {7: Queue("/", "eu", 7, 5, 0, True, False, None, {}, [], [])}
CHANNEL: dict[str, Any] = {
    "connection": "0.1.1", "vhost": "/", "user": "ann",
    "routes": [
        {"exchanges": ["shop", "archive"], "routing_key": "eu.1", "queues": [7, 8]},
        {"exchanges": [""], "routing_key": "x", "queues": []},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "concerned"),
    [
        (Selector(), True),
        (Selector(vhost="/"), True),
        (Selector(vhost="other"), False),
        (Selector(user="bob"), False),
        (Selector(connection="0.1.1"), True),
        (Selector(vhost="/", exchange="shop"), True),
        (Selector(vhost="/", exchange="archive"), False),
        (Selector(vhost="/", exchange="shop", key="eu.#"), True),
        (Selector(vhost="/", exchange="shop", key="us.#"), False),
        (Selector(vhost="/", key="*"), True),
        (Selector(vhost="/", exchange="shop", key="x"), False),
        (Selector(vhost="/", queue="eu"), True),
        (Selector(vhost="/", queue="us"), False),
        (Selector(vhost="/", exchange="", queue="eu"), False),
    ],
)
def test_a_channel_is_concerned_by_what_it_publishes(wanted: Selector, concerned: bool) -> None:
    assert matching(wanted, CHANNEL, QUEUES.get) is concerned
