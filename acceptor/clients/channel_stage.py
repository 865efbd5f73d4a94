"""The life of a channel as a table (AMQP 0-9-1, 1.5). channel.open makes an open one.

Flow does not count here: a channel that is held, or that the client has stopped by channel.flow, is open.
"""

from __future__ import annotations

from penstock.states.transitions import Symbol, Transitions


class ChannelStage(Symbol):
    """The stage of a channel's life."""

    OPEN = "methods and publishes are taken"
    CLOSING = "channel.close was sent, close-ok is due; all but close and close-ok is ignored"
    CLOSED = "its number is free"
    DETACHED = "goes on with the parked publishes of a channel that is closed, and says nothing"


class ChannelEvent(Symbol):
    """An event in the life of a channel."""

    CLOSE = "client: close"
    CLOSE_OK = "client: close-ok"
    ERROR = "an error, a timeout or a rung: channel.close is sent"
    CONNECTION_ENDS = "its connection ends"
    INHERITS = "made for parked publishes that outlive their channel"
    BUG = "a bug in the broker: the parked publishes are dropped"


CHANNEL = Transitions({
    ChannelStage.OPEN: {
        ChannelEvent.CLOSE: ChannelStage.CLOSED,
        ChannelEvent.ERROR: ChannelStage.CLOSING,
        ChannelEvent.CONNECTION_ENDS: ChannelStage.CLOSED,
        ChannelEvent.INHERITS: ChannelStage.DETACHED,
    },
    ChannelStage.CLOSING: {
        ChannelEvent.CLOSE: ChannelStage.CLOSING,
        ChannelEvent.CLOSE_OK: ChannelStage.CLOSED,
        ChannelEvent.CONNECTION_ENDS: ChannelStage.CLOSED,
    },
    ChannelStage.CLOSED: {
        ChannelEvent.CONNECTION_ENDS: ChannelStage.CLOSED,
    },
    ChannelStage.DETACHED: {ChannelEvent.BUG: ChannelStage.DETACHED},
})  # fmt: skip

# For the message path: to look up a member in its enum takes as long as a call (Python 3.11).
OPEN = ChannelStage.OPEN
DETACHED = ChannelStage.DETACHED
LIVE = (OPEN, DETACHED)
"""The stages in which a channel publishes. In the others nothing is parked and nothing unacked."""
