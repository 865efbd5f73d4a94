"""Channels that a stop would concern, by the routes that they have published along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from router.model.index import match
from router.model.records import Binding, Queue
from router.model.topics_cy import Memory, TopicIndex

Facts = dict[str, Any]


class Selector(NamedTuple):
    """The names that a stop selects publishes by; None matches any."""

    vhost: str | None = None
    exchange: str | None = None
    key: str | None = None
    queue: str | None = None
    user: str | None = None
    connection: str | None = None


def matching(wanted: Selector, channel: Facts, queue_of: Callable[[int], Queue | None]) -> bool:
    """Whether a stop would concern a publishing channel (`acceptor.holding.publishing_channels`): whose it is, and one
    of its routes.
    """
    for name in ("vhost", "user", "connection"):
        if getattr(wanted, name) not in (None, channel[name]):
            return False
    if wanted.exchange is None and wanted.key is None and wanted.queue is None:
        return True
    return any(_on_route(wanted, route, queue_of) for route in channel["routes"])


def _on_route(wanted: Selector, route: Facts, queue_of: Callable[[int], Queue | None]) -> bool:
    queues = (queue_of(id) for id in route["queues"])
    return (
        wanted.exchange in (None, route["exchanges"][0])
        and (wanted.key is None or _matches(wanted.key, route["routing_key"]))
        and (wanted.queue is None or any(queue is not None and queue.name == wanted.queue for queue in queues))
    )


def _matches(pattern: str, key: str) -> bool:
    keys = TopicIndex(Memory(0))
    keys.add(Binding("", "", "queue", "", pattern, {}))
    return bool(match(keys, key, {}))
