"""The log lines of holds: one when a channel is held, one for each further cause, one when it is released."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acceptor.holding.observer import HoldObserver
from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.hold import Hold

log = get_logger()


class HoldLog(HoldObserver):
    """Writes the lines `stop`, `still stopped` and `resume`."""

    def held(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """Log the cause."""
        whose = channel.whose()
        if hold.causes == 1:
            log.info("stop", reason=hold.cause.text, **whose)
        else:
            log.info("still stopped", reason=hold.cause.text, held_seconds=round(now - hold.since, 3), **whose)

    def released(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """Log how long the channel was held, and how its gate stands now."""
        log.info("resume", held_seconds=round(now - hold.since, 3), queue=str(hold.gate), **channel.whose())
