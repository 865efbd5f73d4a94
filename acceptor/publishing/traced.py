"""Publishing with traces: publishes of the sample go to the shards alone, each with its place in its trace.

An acceptor that traces nothing has an ordinary `Publishing` instead, so it pays nothing for this. The sample is taken
where publishes go into the turns: those that are refused or have no route are not in it, nor are those of a
transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from acceptor.clients.tracing import Sample
from acceptor.publishing.publishing import Publishing
from penstock.tracing.trace_context import TraceContext

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.parked import ParkedRun
    from acceptor.gates.confirms import Span
    from acceptor.routing.route import Route


class TracedPublishing(Publishing):
    """The publishing of an acceptor that traces a sample of its publishes."""

    def __init__(self, sample: Sample, *parts: Any) -> None:
        super().__init__(*parts)
        self.sample = sample

    def dispatch(
        self, channel: ChannelState, run: ParkedRun, route: Route, count: int, in_lane: bool = False,
        trace: TraceContext | None = None,
    ) -> Span | None:  # fmt: skip
        """Put messages into the turns; those of the sample go alone."""
        while (before := self.sample.next_of(count)) is not None:
            if before:
                super().dispatch(channel, run, route, before, in_lane)
            self._dispatch_traced(channel, run, route, in_lane)
            count -= before + 1
        return super().dispatch(channel, run, route, count, in_lane) if count else None

    def _dispatch_traced(self, channel: ChannelState, run: ParkedRun, route: Route, in_lane: bool) -> None:
        tracing = self.acceptor.tracing
        place = tracing.begin(run, route, channel.whose())
        waiting = super().dispatch(channel, run, route, 1, in_lane, place)
        if waiting is not None:
            tracing.await_confirm(waiting, place)
