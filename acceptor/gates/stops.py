"""Operators' stops, as gates: the publishes that a stop concerns wait there until it is lifted.

A stop is a cause of its own, beside full queues: a publish that both concern is sent once neither is in its way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from acceptor.gates.cause import HoldCause
from acceptor.gates.shut_gate import ShutGate
from router.model.index import match
from router.model.records import Binding, Queue, Stop
from router.model.topics_cy import Memory, TopicIndex

if TYPE_CHECKING:
    from acceptor.gates.permissions import Access


class StopGate(ShutGate):
    """The gate of one stop."""

    def __init__(self, stop: Stop) -> None:
        super().__init__()
        self.stop = stop
        self._keys: TopicIndex | None = None
        if stop.key is not None:
            self._keys = TopicIndex(Memory(0))
            self._keys.add(Binding("", "", "queue", "", stop.key, {}))

    def __str__(self) -> str:
        return str(self.stop)

    def describe(self) -> HoldCause:
        """Describe the stop; `until` is by the node's clock, None for good."""
        facts = {"number": self.stop.number, "until": self.stop.until}
        return HoldCause("stop", str(self), str(self), "operator", facts=facts)

    def concerns(self, access: Access, exchange: str, keys: Iterable[str], queues: Iterable[Queue]) -> bool:
        """Whether it stops such publishes, of any connection or of the one that it names."""
        stop = self.stop
        return (
            stop.vhost in (None, access.vhost)
            and stop.user in (None, access.user)
            and stop.exchange in (None, exchange)
            and (self._keys is None or any(match(self._keys, key, {}) for key in keys))
            and (stop.queue is None or any(queue.name == stop.queue for queue in queues))
        )
