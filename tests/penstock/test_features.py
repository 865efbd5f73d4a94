"""What the arguments of a declaration ask of a queue, and that it survives the way over the bus."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.bus import pack, unpack
from penstock.features import LAST_VALUE_KEY, QueueFeatures

ALL: dict[str, Any] = {
    "x-queue-type": "quorum",
    "x-message-ttl": 0,
    "x-expires": 1000,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "k",
    "x-max-priority": 9,
    "x-single-active-consumer": True,
    "x-delivery-limit": 0,
    "x-consumer-timeout": 5,
    "x-last-value-key": "key",
    "x-tx-when-full": "reject",
}
EVERYTHING = QueueFeatures("quorum", 0, 1000, "", "k", 9, True, 0, 5, "key", "reject")


def test_from_arguments() -> None:
    assert QueueFeatures.from_arguments(ALL) == EVERYTHING
    assert QueueFeatures.from_arguments({"x-max-length": 5}) == QueueFeatures()


@pytest.mark.parametrize("arguments", [{"x-max-priority": 0}, {"x-delivery-limit": -1}], ids=str)
def test_what_limits_nothing(arguments: dict[str, Any]) -> None:
    assert QueueFeatures.from_arguments(arguments) == QueueFeatures()


def test_key_of_a_last_value_queue() -> None:
    for arguments, key in (
        ({"x-overflow": "last-value"}, LAST_VALUE_KEY),
        ({"x-overflow": "last-value", "x-last-value-key": "a"}, "a"),
        ({"qpid.last_value_queue_key": "b"}, "b"),
        ({"x-overflow": "drop-head"}, None),
    ):
        assert QueueFeatures.from_arguments(arguments).last_value_key == key


def test_over_the_wire() -> None:
    for features in EVERYTHING, QueueFeatures():
        assert QueueFeatures.from_wire(unpack(pack(features.to_wire()))) == features
    assert QueueFeatures.from_wire([]) == QueueFeatures()
    assert QueueFeatures.from_wire([*EVERYTHING.to_wire(), "of a newer penstock"]) == EVERYTHING
