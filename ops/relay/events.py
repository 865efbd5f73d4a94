"""What happens on the two connections of a relay, as reported by pika's loop, and what the core is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from ops.relay.core import Relay
from ops.relay.delivery import Delivery
from penstock.client.core import INNOCENT

PASSING: Final = INNOCENT | {541}
"""Reply codes of a close after which it is worth going on: no fault of the relay, or an internal error."""
FINAL_AT_SOURCE: Final = frozenset({403, 404, 405, 530})
"""Reply codes of a close for which a queue cannot be consumed from: access refused, not found, exclusive, not allowed.
"""
NOT_FOUND: Final = 404

Report = Callable[[str], None]


class Shell(Protocol):
    """The shell, as far as events know it."""

    core: Relay
    source_up: bool
    patient: bool

    def turn(self) -> None: ...
    def source_lost(self) -> None: ...
    def target_lost(self) -> None: ...
    def ended(self) -> None: ...


class _Events:
    """Events of either end."""

    def __init__(self, shell: Shell, address: str, report: Report) -> None:
        """`address` names the end in messages for people."""
        self._shell, self._core, self._report = shell, shell.core, report
        self._address = address
        self._was_up = self._is_up = self._is_ended = False
        self._reported = ""

    def up(self) -> None:
        """Handle a channel that is ready for use."""
        self._was_up = self._is_up = True

    def down(self, code: int, text: str) -> None:
        """Handle the loss of the channel or the connection. A first connection has to succeed at once, unless the
        shell is patient.
        """
        if self._core.ending is not None:
            return
        said = f"{code} {text}" if code else text
        if self._is_final(code) or not (self._was_up or self._shell.patient):
            self._core.fail(f"{self._address}: {said}")
        elif self._is_up:
            self._report(f"connection to {self._address} lost, trying again: {said}")
        elif self._shell.patient and said != self._reported:
            self._report(f"no connection to {self._address}, trying again: {said}")
        self._is_up, self._reported = False, said
        self._lost()
        self._shell.turn()

    def hopeless(self, text: str) -> None:
        """Handle a connection that the broker refuses."""
        self._core.fail(f"{self._address}: {text}")
        self._shell.turn()

    def ended(self) -> None:
        """Handle the end of the connection after it was closed, or of the time that closing may take."""
        if not self._is_ended:
            self._is_ended = True
            self._shell.ended()

    # Events of publishers, which an end that consumes has not, or need not heed.

    def flow(self, active: bool) -> None: ...
    def blocked(self, reason: str) -> None: ...
    def unblocked(self) -> None: ...
    def settled(self, tag: int, multiple: bool, taken: bool) -> None: ...
    def returned(
        self, message_id: str, code: int, text: str, exchange: str, routing_key: str, headers: dict[str, object]
    ) -> None: ...

    def _is_final(self, code: int) -> bool:
        raise NotImplementedError

    def _lost(self) -> None:
        raise NotImplementedError


class SourceEvents(_Events):
    """Events of the source."""

    def ready(self, count: int) -> None:
        """Handle the number of messages in the queue, before the first delivery."""
        self._shell.source_up = True
        self._core.source_up(count)
        self._shell.turn()

    def delivered(self, delivery: Delivery) -> None:
        """Handle a delivery."""
        self._core.delivered(delivery)
        self._shell.turn()

    def cancelled(self) -> None:
        """Handle the end of the consumer."""
        self.failed(f"{self._address}: the queue was deleted")

    def failed(self, text: str) -> None:
        """Handle an error that ends the relay."""
        self._core.fail(text)
        self._shell.turn()

    def _is_final(self, code: int) -> bool:
        """A patient shell begins anew later; it does not reopen a channel at once that may be closed at once."""
        return code in FINAL_AT_SOURCE or (self._shell.patient and code not in PASSING)

    def _lost(self) -> None:
        self._shell.source_lost()
        self._core.source_down()


class TargetEvents(_Events):
    """Events of the target."""

    def __init__(self, shell: Shell, address: str, report: Report, needs_place: bool) -> None:
        """`needs_place`: whether the relay ends if its queue or exchange does not exist."""
        super().__init__(shell, address, report)
        self._needs_place = needs_place

    def up(self) -> None:
        """Handle a channel in confirm mode."""
        super().up()
        self._core.target_up()
        self._shell.turn()

    def flow(self, active: bool) -> None:
        """Handle Channel.Flow."""
        if active:
            self._core.release("flow")
        else:
            self._core.hold("flow", f"channel.flow of {self._address}")
        self._shell.turn()

    def blocked(self, reason: str) -> None:
        """Handle connection.blocked."""
        self._core.hold("blocked", f"connection.blocked of {self._address}: {reason}")
        self._shell.turn()

    def unblocked(self) -> None:
        """Handle connection.unblocked."""
        self._core.release("blocked")
        self._shell.turn()

    def settled(self, tag: int, multiple: bool, taken: bool) -> None:
        """Handle basic.ack (`taken`) or basic.nack."""
        self._core.settled(tag, multiple, taken, time.monotonic())
        self._shell.turn()

    def came_back(self, delivery: Delivery, code: int) -> None:
        """Handle basic.return."""
        self._core.returned(delivery, code)

    def _is_final(self, code: int) -> bool:
        """A message's exchange may be gone (404): the relay asks for it anew."""
        return code not in PASSING and (code != NOT_FOUND or self._needs_place)

    def _lost(self) -> None:
        self._shell.target_lost()
        self._core.target_down()
