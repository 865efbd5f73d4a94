"""The channel of a direct connection: methods are called, and publishes awaited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from acceptor.amqp.channel import Channel
from acceptor.amqp.methods import HANDLERS
from acceptor.clients.asking import Handling, Until
from acceptor.clients.channel_stage import OPEN, ChannelEvent
from acceptor.gates.confirms import Confirms, Withholding
from acceptor.gates.rights import Undecided
from penstock.amqp import methods_cy as methods
from penstock.amqp.errors import AMQPError, amqp_error
from penstock.amqp.scan_cy import Failure, Oversize, PublishRun, SettleRun
from penstock.amqp.spec import BASIC_CLASS, MethodSpec

if TYPE_CHECKING:
    from acceptor.amqp.services import Services
    from acceptor.clients.connection_state import ConnectionState

HEADER_FRAME, BODY_FRAME, FRAME_END = 2, 3, b"\xce"


class DirectChannel(Channel):
    """The channel of one request. `error` has ended it; `confirm` is None until its publish is acked (True) or nacked
    (False).
    """

    def __init__(self, connection: ConnectionState, number: int, services: Services) -> None:
        super().__init__(connection, number, services)
        self.error: AMQPError | None = None
        self.confirm: bool | None = None
        self.on_outcome: Callable[[], None] = _nothing

    # Methods

    def call(self, method: MethodSpec, arguments: dict[str, Any]) -> Handling:
        """Carry out a method of a client; the connection has the answer then. AMQPError if it fails."""
        while True:
            try:
                handling = HANDLERS[method.name](self, arguments)
                if handling is not None:
                    yield from handling
                return
            except Undecided as undecided:
                yield Until(undecided.start)

    # Publishes

    def publish(self, exchange: str, key: str, properties: bytes, body: bytes) -> None:
        """Publish a message, mandatory and with a confirm. It may wait for room then. TypeError or
        ValueError if a frame cannot hold it.
        """
        self.confirms = Confirms()
        method = methods.frame(self.number, "basic_publish", exchange=exchange, routing_key=key, mandatory=True)
        header = BASIC_CLASS.to_bytes(2, "big") + bytes(2) + len(body).to_bytes(8, "big") + properties
        frames = bytearray(method + self._frame(HEADER_FRAME, header))
        if body:
            frames += self._frame(BODY_FRAME, body)
        self._receive(frames)

    def settle(self, tag: int, method: str, *, multiple: bool = True, **arguments: bool) -> None:
        """Settle all messages up to a delivery tag, or (not `multiple`) the one of that tag."""
        self._receive(bytearray(methods.frame(self.number, method, delivery_tag=tag, multiple=multiple, **arguments)))

    def _receive(self, frames: bytearray) -> None:
        events: list[object] = []
        self.connection.scanner.scan(frames, 0, len(frames), events)
        for event in events:
            if isinstance(event, PublishRun):
                self.take_publishes(event)
            elif isinstance(event, SettleRun):
                self.take_settlements(event)
            elif isinstance(event, Oversize):
                self.take_oversize(event.size)
            elif isinstance(event, Failure):
                self.fail(amqp_error(event.code, event.text))

    def _frame(self, kind: int, payload: bytes) -> bytes:
        return b"%c%b%b%b%b" % (
            kind, self.number.to_bytes(2, "big"), len(payload).to_bytes(4, "big"), payload, FRAME_END,
        )  # fmt: skip

    @property
    def is_decided(self) -> bool:
        """Whether the fate of the publish is known."""
        return self.confirm is not None or self.error is not None

    def outcome_within(self, seconds: float, resume: Callable[[Any], None]) -> None:
        """Call back, with any value, once the publish is decided, or after a time."""
        pending = True

        def call_back() -> None:
            nonlocal pending
            if pending:
                pending = False
                resume(None)

        self.on_outcome = call_back
        self.acceptor.later(seconds, call_back)

    def write_confirms(self) -> None:
        """Take the confirm of the publish."""
        assert self.confirms is not None
        completed, self.confirms.completed = self.confirms.completed, []
        if completed:
            acked = sum(count for _, count, negative in completed if not negative)
            self.acceptor.counters.confirmed += acked
            self.traffic.confirmed += acked
            self.confirm = not any(negative for _, _, negative in completed)
            self.on_outcome()

    def withholds(self, queue_gate: Withholding) -> bool:
        """Confirms are never withheld: nobody publishes more once it has one."""
        return False

    def fail(self, error: AMQPError) -> None:
        """End the channel for an error."""
        if self.stage is OPEN:
            self.error = error
            self.end(ChannelEvent.ERROR, keep_parked=False)
            self.on_outcome()


def _nothing() -> None:
    """Nobody waits for the outcome."""
