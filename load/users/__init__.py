"""Locust users for the usual shapes of messaging: publishers that obey, ignore or know `blocked`, and consumers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from load.options import LoadOptions
from load.topology import Destination
from load.users.base import AmqpUser, tally
from load.users.broadcasting import (
    BlockedAwareBroadcaster,
    IgnoringBroadcaster,
    ObeyingBroadcaster,
    Subscriber,
)
from load.users.calling import (
    BlockedAwareCaller,
    BlockedAwareTaskProducer,
    IgnoringCaller,
    IgnoringTaskProducer,
    ObeyingCaller,
    ObeyingTaskProducer,
    Responder,
    TaskWorker,
)
from load.users.consuming import ChurningConsumer, Consumer, SlowConsumer, attendance
from load.users.publishing import (
    BlockedAwareBurster,
    BlockedAwareChurner,
    BlockedAwarePublisher,
    IgnoringBurster,
    IgnoringChurner,
    IgnoringPublisher,
    ObeyingBurster,
    ObeyingChurner,
    ObeyingPublisher,
    Publisher,
)

__all__ = ["PATTERNS", "USERS", "AmqpUser", "Publisher", "attendance", "consumer_counts", "tally", "unacked"]


class Pattern(NamedTuple):
    """Publishers, one class per kind, in equal parts; and the class that consumes their messages."""

    publishers: tuple[type[Publisher], ...]
    consumer: type[Consumer]


PUBLISHERS = (ObeyingPublisher, BlockedAwarePublisher, IgnoringPublisher)

PATTERNS = {
    "work-queue": Pattern(PUBLISHERS, Consumer),
    "bursty": Pattern((ObeyingBurster, BlockedAwareBurster, IgnoringBurster), Consumer),
    "slow-consumer": Pattern(PUBLISHERS, SlowConsumer),
    "churn": Pattern((ObeyingChurner, BlockedAwareChurner, IgnoringChurner), ChurningConsumer),
    "pub-sub": Pattern((ObeyingBroadcaster, BlockedAwareBroadcaster, IgnoringBroadcaster), Subscriber),
    "rpc": Pattern((ObeyingCaller, BlockedAwareCaller, IgnoringCaller), Responder),
    "celery": Pattern((ObeyingTaskProducer, BlockedAwareTaskProducer, IgnoringTaskProducer), TaskWorker),
}

USERS: tuple[type[AmqpUser], ...] = tuple(
    dict.fromkeys(user for pattern in PATTERNS.values() for user in (*pattern.publishers, pattern.consumer))
)
"""All classes, each once."""


def consumer_counts(options: LoadOptions) -> dict[type[Consumer], int]:
    """Return the number of users of each consumer class, if the class takes part."""
    return {
        pattern.consumer: options.subscribers if pattern.consumer is Subscriber else options.consumers
        for pattern in PATTERNS.values()
    }


def unacked(users: Iterable[type[AmqpUser]], options: LoadOptions) -> dict[Destination, int]:
    """Return the destinations of these users, and how many messages of one queue there its consumers may have
    unacked.
    """
    counts = consumer_counts(options)
    most: dict[Destination, int] = {}
    for user in users:
        most.setdefault(user.destination, 0)
        if issubclass(user, Consumer):
            of_a_queue = 1 if user is Subscriber else counts[user]
            most[user.destination] += of_a_queue * user.prefetch(options)
    return most
