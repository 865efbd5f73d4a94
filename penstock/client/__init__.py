"""Producers that understand being held, for any AMQP 0-9-1 broker: `Producer` (on pika, for threads) and
`penstock.client.aio.AsyncProducer` (on aio-pika). They need the extra `client`.
"""

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
    Unroutable,
    WindowFull,
)
from penstock.client.options import FlowCommand
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
    "Unroutable",
    "WindowFull",
]
