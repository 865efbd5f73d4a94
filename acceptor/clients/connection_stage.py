"""The life of a connection, from its protocol header to its end, as a table (AMQP 0-9-1, 2.2.4).

Nothing here reads or writes: acceptor/amqp/connection.py says which event has occurred, and acts on it. A method that
the table does not allow during the handshake is answered with 503; one that comes while the connection ends is ignored.
"""

from __future__ import annotations

from penstock.states.transitions import Symbol, Transitions


class ConnectionStage(Symbol):
    """The stage of a connection's life."""

    HEADER = "the protocol header is due"
    START_OK = "connection.start was sent, start-ok is due"
    LOGIN = "the login is being decided; methods that the client sends ahead wait"
    TUNE_OK = "connection.tune was sent, tune-ok is due"
    OPENING = "connection.open is due"
    VHOST = "a service decides whether the client may open the vhost; methods that it sends ahead wait"
    OPEN = "channels may be used"
    REFUSED = "the login was refused; the client learns it after a while"
    CLOSING = "connection.close was sent, close-ok is due"
    LEAVING = "the client has sent connection.close; its exclusive queues are being deleted"
    DROPPED = "hung up on while it was open; its channels end once the socket is gone"
    CLOSED = "the last method is written, or the socket is gone; input is dropped"


class ConnectionEvent(Symbol):
    """An event in the life of a connection."""

    HEADER = "client: protocol header"
    OTHER_HEADER = "client: another protocol's header"
    START_OK = "client: start-ok"
    UNREADABLE_LOGIN = "client: start-ok without credentials that can be read"
    TUNE_OK = "client: tune-ok within the limits"
    OPEN = "client: open, of a vhost that it may use"
    UNDECIDED = "client: open, of a vhost that a service decides on"
    DECIDED = "the service has decided"
    CLOSE = "client: close"
    CLOSE_OK = "client: close-ok"
    ACCEPTED = "the login is accepted"
    REFUSED = "the login is refused"
    QUEUES_DELETED = "the exclusive queues are deleted: close-ok is sent"
    ERROR = "an error, an operator or a shutdown: connection.close is sent"
    HANG_UP = "a deadline, missed heartbeats, or an unreadable handshake: the broker hangs up"
    LOST = "the socket is gone"


# For the message path: to look up a member in its enum takes as long as a call (Python 3.11).
OPEN = ConnectionStage.OPEN
HANDSHAKE = (
    ConnectionStage.HEADER, ConnectionStage.START_OK, ConnectionStage.LOGIN, ConnectionStage.TUNE_OK,
    ConnectionStage.OPENING, ConnectionStage.VHOST,
)  # fmt: skip
"""The stages before the connection is open."""
UNDECIDED = (ConnectionStage.LOGIN, ConnectionStage.VHOST)
"""The stages in which what the client sends ahead waits."""
ENDING = (ConnectionStage.REFUSED, ConnectionStage.CLOSING, ConnectionStage.LEAVING)
"""The stages in which all but close and close-ok is ignored, on channel 0."""
OVER = (ConnectionStage.DROPPED, ConnectionStage.CLOSED)
"""The stages in which nothing is sent and all input is ignored."""

_ENDS = {
    ConnectionEvent.CLOSE: ConnectionStage.LEAVING,
    ConnectionEvent.CLOSE_OK: ConnectionStage.CLOSED,
    ConnectionEvent.ERROR: ConnectionStage.CLOSING,
    ConnectionEvent.HANG_UP: ConnectionStage.CLOSED,
    ConnectionEvent.LOST: ConnectionStage.CLOSED,
}
"""How a connection may end before it is open. In a login that is being decided, methods of the client wait."""
_ALL_ENDED = {
    ConnectionEvent.CLOSE: ConnectionStage.CLOSED,
    ConnectionEvent.CLOSE_OK: ConnectionStage.CLOSED,
    ConnectionEvent.HANG_UP: ConnectionStage.CLOSED,
    ConnectionEvent.LOST: ConnectionStage.CLOSED,
}
"""How a connection of which nothing is left comes to its end. A close that crosses the broker's is answered at once."""

CONNECTION = Transitions({
    ConnectionStage.HEADER: {
        ConnectionEvent.HEADER: ConnectionStage.START_OK,
        ConnectionEvent.OTHER_HEADER: ConnectionStage.CLOSED,
        ConnectionEvent.ERROR: ConnectionStage.CLOSING,
        ConnectionEvent.HANG_UP: ConnectionStage.CLOSED,
        ConnectionEvent.LOST: ConnectionStage.CLOSED,
    },
    ConnectionStage.START_OK: {
        ConnectionEvent.START_OK: ConnectionStage.LOGIN,
        ConnectionEvent.UNREADABLE_LOGIN: ConnectionStage.REFUSED,
        **_ENDS,
    },
    ConnectionStage.LOGIN: {
        ConnectionEvent.ACCEPTED: ConnectionStage.TUNE_OK,
        ConnectionEvent.REFUSED: ConnectionStage.REFUSED,
        ConnectionEvent.ERROR: ConnectionStage.CLOSING,
        ConnectionEvent.HANG_UP: ConnectionStage.CLOSED,
        ConnectionEvent.LOST: ConnectionStage.CLOSED,
    },
    ConnectionStage.TUNE_OK: {ConnectionEvent.TUNE_OK: ConnectionStage.OPENING, **_ENDS},
    ConnectionStage.OPENING: {
        ConnectionEvent.OPEN: ConnectionStage.OPEN,
        ConnectionEvent.UNDECIDED: ConnectionStage.VHOST,
        **_ENDS,
    },
    ConnectionStage.VHOST: {
        ConnectionEvent.DECIDED: ConnectionStage.OPENING,
        ConnectionEvent.ERROR: ConnectionStage.CLOSING,
        ConnectionEvent.HANG_UP: ConnectionStage.CLOSED,
        ConnectionEvent.LOST: ConnectionStage.CLOSED,
    },
    ConnectionStage.OPEN: {
        ConnectionEvent.CLOSE: ConnectionStage.LEAVING,
        ConnectionEvent.CLOSE_OK: ConnectionStage.DROPPED,
        ConnectionEvent.ERROR: ConnectionStage.CLOSING,
        ConnectionEvent.HANG_UP: ConnectionStage.DROPPED,
        ConnectionEvent.LOST: ConnectionStage.CLOSED,
    },
    ConnectionStage.REFUSED: {ConnectionEvent.ERROR: ConnectionStage.CLOSING, **_ALL_ENDED},
    ConnectionStage.CLOSING: _ALL_ENDED,
    ConnectionStage.LEAVING: {ConnectionEvent.QUEUES_DELETED: ConnectionStage.CLOSED, **_ALL_ENDED},
    ConnectionStage.DROPPED: {
        ConnectionEvent.HANG_UP: ConnectionStage.DROPPED,
        ConnectionEvent.LOST: ConnectionStage.CLOSED,
    },
    ConnectionStage.CLOSED: {
        ConnectionEvent.HANG_UP: ConnectionStage.CLOSED,
        ConnectionEvent.LOST: ConnectionStage.CLOSED,
    },
})  # fmt: skip
