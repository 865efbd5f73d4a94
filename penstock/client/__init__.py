"""Producers that understand being held, for any AMQP 0-9-1 broker: `Producer` (on pika, for threads) and
`penstock.client.aio.AsyncProducer` (on aio-pika), with the extra `client`; and `penstock.client.kombu` for Celery, with
the extra `kombu`.
"""

from typing import TYPE_CHECKING, Any

from penstock.client.core import Metrics
from penstock.client.errors import (
    Closed,
    ConnectionLost,
    Full,
    NotConnected,
    ProducerError,
    Refused,
    Rejected,
    Stopped,
    TimedOut,
    Unconfirmed,
    Unroutable,
    WindowFull,
)
from penstock.client.options import FlowCommand

if TYPE_CHECKING:
    from penstock.client.producer import Producer

__all__ = [
    "Closed",
    "ConnectionLost",
    "FlowCommand",
    "Full",
    "Metrics",
    "NotConnected",
    "Producer",
    "ProducerError",
    "Refused",
    "Rejected",
    "Stopped",
    "TimedOut",
    "Unconfirmed",
    "Unroutable",
    "WindowFull",
]


def __getattr__(name: str) -> Any:
    """Import the producer on first use: a program that uses only kombu need not have pika."""
    if name == "Producer":
        from penstock.client.producer import Producer

        return Producer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
