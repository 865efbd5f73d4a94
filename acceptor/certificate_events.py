"""Events about certificates that expire: the first acceptor publishes them for the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acceptor.core import AcceptorCore


class CertificateEvents:
    """The events of one acceptor. `expiring` logs the certificates that expire, and returns the facts of their events
    (`penstock.flow.flow_events`).
    """

    def __init__(self, core: AcceptorCore, expiring: Callable[[], list[dict[str, Any]]]) -> None:
        self._core = core
        self._expiring = expiring

    def publish(self) -> None:
        """Publish what is due, once it reaches each queue; called once a second."""
        if self._core.state.index == 0 and self._core.has_all_shards():
            for facts in self._expiring():
                self._core.publish_event(facts)
