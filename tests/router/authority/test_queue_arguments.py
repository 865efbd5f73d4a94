"""Arguments of queue.declare: RabbitMQ's rules and texts, most of them observed on 3.10."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.amqp.errors import SoftError
from penstock.limits.watermarks import FlowDefaults
from router.authority.queue_arguments import check_arguments, check_properties

SUBJECT = "queue 'q' in vhost '/'"
QUORUM = {"x-queue-type": "quorum"}
STREAM = {"x-queue-type": "stream"}

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"x-expires": 0}, "x-expires", "{value_zero,0}"),
    ({"x-expires": -1}, "x-expires", "{value_negative,-1}"),
    ({"x-expires": 10**12}, "x-expires", "{value_too_large,1000000000000}"),
    ({"x-message-ttl": "a"}, "x-message-ttl", '"expected integer, got longstr"'),
    ({"x-message-ttl": -5}, "x-message-ttl", "{value_negative,-5}"),
    ({"x-message-ttl": 315_360_000_001}, "x-message-ttl", "{value_too_large,315360000001}"),
    ({"x-message-ttl": True}, "x-message-ttl", '"expected integer, got bool"'),
    ({"x-max-length": None}, "x-max-length", '"expected integer, got void"'),
    ({"x-max-length": -1}, "x-max-length", "{value_negative,-1}"),
    ({"x-max-length-bytes": [1]}, "x-max-length-bytes", '"expected integer, got array"'),
    ({"x-max-priority": 300}, "x-max-priority", "{max_value_exceeded,300}"),
    ({"x-max-priority": -1}, "x-max-priority", "{value_negative,-1}"),
    ({"x-overflow": "burst"}, "x-overflow", "invalid_overflow"),
    ({"x-overflow": 5}, "x-overflow", "{unacceptable_type,signedint}"),
    ({"x-queue-type": "foo"}, "x-queue-type", "\"unsupported queue type 'foo'\""),
    ({"x-queue-type": 5}, "x-queue-type", "{unacceptable_type,signedint}"),
    ({"x-dead-letter-routing-key": "k"}, "x-dead-letter-routing-key", "routing_key_but_no_dlx_defined"),
    ({"x-dead-letter-routing-key": 5}, "x-dead-letter-routing-key", "{unacceptable_type,signedint}"),
    ({"x-single-active-consumer": "yes"}, "x-single-active-consumer", "{unacceptable_type,longstr}"),
    ({"x-queue-mode": "x"}, "x-queue-mode", "\"unsupported queue mode 'x'\""),
    ({"x-queue-version": 3}, "x-queue-version", "\"unsupported queue version '3'\""),
    ({"x-queue-version": "1"}, "x-queue-version", '"expected integer, got longstr"'),
    (STREAM, "x-queue-type", "\"unsupported queue type 'stream'\""),
    ({**QUORUM, "x-quorum-initial-group-size": 0}, "x-quorum-initial-group-size", "{value_zero,0}"),
    ({**QUORUM, "x-max-in-memory-length": -1}, "x-max-in-memory-length", "{value_negative,-1}"),
    ({"x-queue-leader-locator": "a"}, "x-queue-leader-locator", "invalid_queue_locator_arg"),
    ({**QUORUM, "x-dead-letter-strategy": "a"}, "x-dead-letter-strategy", "invalid_dlx_strategy"),
    ({**QUORUM, "x-delivery-limit": "a"}, "x-delivery-limit", '"expected integer, got longstr"'),
    (
        {"x-max-length": 10, "qpid.flow_stop_count": 11},
        "qpid.flow_stop_count",
        '"stop mark 11 is above the limit 10 (x-max-length)"',
    ),
]


@pytest.mark.parametrize(("arguments", "argument", "reason"), REFUSED, ids=lambda value: str(value))
def test_refused(arguments: dict[str, Any], argument: str, reason: str) -> None:
    with pytest.raises(SoftError) as refused:
        check_arguments(SUBJECT, arguments, FlowDefaults())
    assert (refused.value.code, refused.value.text) == (406, f"invalid arg '{argument}' for {SUBJECT}: {reason}")


def test_dead_letter_exchange_of_another_type() -> None:
    with pytest.raises(SoftError) as refused:
        check_arguments(SUBJECT, {"x-dead-letter-exchange": 5}, FlowDefaults())
    assert refused.value.text == f"invalid type 'signedint' for arg 'x-dead-letter-exchange' in {SUBJECT}"


@pytest.mark.parametrize(
    ("kind", "argument", "value"),
    [
        ("classic", "x-max-age", "7D"),
        ("classic", "x-delivery-limit", 5),
        ("quorum", "x-max-priority", 5),
        ("quorum", "x-queue-mode", "lazy"),
        ("quorum", "x-queue-master-locator", "min-masters"),
        ("quorum", "x-initial-cluster-size", 3),
        ("classic", "x-dead-letter-strategy", "at-most-once"),
        ("classic", "x-quorum-initial-group-size", 3),
        ("classic", "x-max-in-memory-bytes", 3),
    ],
)
def test_argument_of_another_type_of_queue(kind: str, argument: str, value: Any) -> None:
    with pytest.raises(SoftError) as refused:
        check_arguments(SUBJECT, {"x-queue-type": kind, argument: value}, FlowDefaults())
    assert refused.value.text == f"invalid arg '{argument}' for {SUBJECT} of queue type rabbit_{kind}_queue"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"of-no-meaning": {"a": [1]}, "x-of-no-meaning": -1},
        {"x-expires": 1, "x-message-ttl": 0, "x-max-length": 0, "x-max-length-bytes": 0, "x-max-priority": 255},
        {"x-message-ttl": 315_360_000_000, "x-single-active-consumer": False, "x-queue-mode": "lazy"},
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k", "x-queue-type": "classic"},
        {"x-overflow": "reject-publish-dlx", "x-queue-version": 2, "x-consumer-timeout": 1000},
        {**QUORUM, "x-delivery-limit": -1, "x-quorum-initial-group-size": 3, "x-dead-letter-strategy": "at-least-once"},
        {"x-queue-master-locator": "whatever", "x-queue-leader-locator": "balanced", "x-cancel-on-ha-failover": True},
        {**QUORUM, "x-max-in-memory-length": 5, "x-queue-leader-locator": "client-local"},
    ],
    ids=str,
)
def test_accepted(arguments: dict[str, Any]) -> None:
    check_arguments(SUBJECT, arguments, FlowDefaults())


def test_limits() -> None:
    flow = {"x-max-length": 100, "x-overflow": "flow"}
    limits = check_arguments(SUBJECT, flow, FlowDefaults(stop_percent=50, resume_percent=20))
    assert (limits.max_count, limits.overflow) == (100, "flow")
    assert (limits.marks.stop_count, limits.marks.resume_count) == (50, 20)
    assert check_arguments(SUBJECT, {"x-max-length": 100}, FlowDefaults()).overflow == "drop-head"
    assert check_arguments(SUBJECT, {}, FlowDefaults(max_count=7)).max_count == 7


def test_properties() -> None:
    check_properties(SUBJECT, "quorum", durable=True, auto_delete=False, exclusive=False)
    check_properties(SUBJECT, "classic", durable=False, auto_delete=True, exclusive=True)
    for wrong, word in (
        ({"durable": False}, "non-durable"),
        ({"auto_delete": True, "durable": False}, "auto-delete"),
        ({"exclusive": True, "durable": False}, "exclusive-owner"),
        ({"exclusive": True, "auto_delete": True}, "auto-delete"),
    ):
        with pytest.raises(SoftError) as refused:
            check_properties(SUBJECT, "quorum", **{"durable": True, "auto_delete": False, "exclusive": False, **wrong})
        assert refused.value.text == f"invalid property '{word}' for {SUBJECT}"
