"""A queue's features from the arguments of its declaration, and their form on the bus."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.bus import pack, unpack
from penstock.limits.features import (
    LANE_RESERVE,
    LAST_VALUE_KEY,
    QueueFeatures,
    QueueLane,
    expires_on_wire,
    granted_on_wire,
    message_ttl_on_wire,
)

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
    "x-deadlock": "spill",
    "x-max-rate": 50,
    "x-max-rate-bytes": "2 kB",
    "x-rate-burst": "0.5 s",
    "x-fair-by": "user",
    "x-pace-depth": 100,
    "x-pace-wait": "1 s",
    "x-lane-priority": 5,
    "x-lane-key": "^control",
    "x-lane-reserve": 9,
}
EVERYTHING = QueueFeatures(
    "quorum",
    0,
    1000,
    "",
    "k",
    9,
    True,
    0,
    5,
    "key",
    "reject",
    50,
    2000,
    500,
    deadlock="spill",
    fair_by="user",
    pace_depth=100,
    pace_wait=1000,
    lane=QueueLane(5, "^control", 9),
)
STRANGE = replace(EVERYTHING, essential=True, unprivileged_reason="exclusive queue")


def test_from_arguments() -> None:
    assert QueueFeatures.from_arguments(ALL) == EVERYTHING
    assert QueueFeatures.from_arguments({"x-max-length": 5}) == QueueFeatures()


def test_the_reserve_of_a_lane() -> None:
    assert [
        QueueFeatures(lane=QueueLane(priority, key, reserve)).reserve
        for priority, key, reserve in ((None, None, 9), (0, None, 9), (None, "a", 9), (None, "", None), (3, "a", None))
    ] == [0, 9, 9, 0, LANE_RESERVE]


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
    for features in EVERYTHING, STRANGE, QueueFeatures():
        assert QueueFeatures.from_wire(unpack(pack(features.to_wire()))) == features
    assert QueueFeatures.from_wire([*EVERYTHING.to_wire(), "of a newer penstock"]) == EVERYTHING


def test_the_form_on_the_wire_is_fixed() -> None:
    assert replace(STRANGE, chosen=True).to_wire() == [
        *("quorum", 0, 1000, "", "k", 9, True, 0, 5, "key", "reject"), *(50, 2000, 500), *("auto", "forever"),
        *("user", "spill", True, "exclusive queue"), *(100, 1000), *(5, "^control", 9), *(False, True),
    ]  # fmt: skip


def test_one_field_of_a_list_is_read_without_the_others() -> None:
    values = QueueFeatures(message_ttl=5, expires=7).to_wire()
    assert (message_ttl_on_wire(values), expires_on_wire(values)) == (5, 7)
    assert expires_on_wire(QueueFeatures(message_ttl=5).to_wire()) is None


def test_an_older_list_lacks_the_last_fields() -> None:
    values, none = replace(STRANGE, granted=True, chosen=True).to_wire(), QueueFeatures().to_wire()
    for known in range(len(values) + 1):
        older = values[:known]
        assert QueueFeatures.from_wire(older).to_wire() == [*older, *none[known:]]
        assert granted_on_wire(older) == (known > values.index("^control") + 2)
