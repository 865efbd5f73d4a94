"""The log lines of holds: one when a channel is held, one for each further cause, one when it is released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.node.logs import get_logger

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.hold import Hold

log = get_logger()


class HoldObserver(Protocol):
    """Keeps a book of holds. Times are seconds of the acceptor's clock."""

    def held(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """A channel is held, or (`hold.causes` > 1) held for another cause than before."""
        ...

    def released(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """A channel is not held any more; it may be closing."""
        ...


class HoldLog:
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
