"""The contract of whatever follows holds: ladders, books, notices, parking."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acceptor.clients.channel_state import ChannelState
    from acceptor.clients.hold import Hold


class HoldObserver:
    """Follows the holds of an acceptor. Times are seconds of its clock. An observer overrides what concerns it."""

    def held(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """A channel is held, or (`hold.causes` > 1) held for another cause than before."""

    def released(self, channel: ChannelState, hold: Hold, now: float) -> None:
        """A channel is not held any more; it may be closing. The `hold` was its last."""
