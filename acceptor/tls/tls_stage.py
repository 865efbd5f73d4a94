"""The life of a TLS session, from its first message to its end, as a table (RFC 8446, 2)."""

from __future__ import annotations

from penstock.states.transitions import Symbol, Transitions


class TlsStage(Symbol):
    """The stage of a session."""

    HELLO = "the client's first message is due"
    WAITING = "the handshake waits for its turn; the socket is not read"
    HANDSHAKE = "the handshake goes on"
    OPEN = "AMQP is spoken"
    OVER = "nothing is read or written any more"


class TlsEvent(Symbol):
    """An event in the life of a session."""

    FIRST_MESSAGE = "client: its first message"
    TURN = "the handshake has its turn"
    COMPLETE = "the handshake is complete"
    END = "an error, a deadline, the end of either side"


_ENDS = {TlsEvent.END: TlsStage.OVER}

TLS = Transitions(
    {
        TlsStage.HELLO: {TlsEvent.FIRST_MESSAGE: TlsStage.WAITING, **_ENDS},
        TlsStage.WAITING: {TlsEvent.TURN: TlsStage.HANDSHAKE, **_ENDS},
        TlsStage.HANDSHAKE: {TlsEvent.COMPLETE: TlsStage.OPEN, **_ENDS},
        TlsStage.OPEN: _ENDS,
        TlsStage.OVER: _ENDS,
    }
)
