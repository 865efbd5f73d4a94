"""The logic of a producer, between its caller and its broker: everything but sockets, threads and clocks.

A shell (`producer` on pika, `aio` on aio-pika) passes in sends and the broker's replies, publishes the messages of
`due`, and then, outside of its lock, fulfils the `outcomes` and reports the `commands`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from uuid import uuid4

from penstock.client.errors import (
    Full,
    NotConnected,
    ProducerError,
    Refused,
    Rejected,
    Stopped,
    Unroutable,
    WindowFull,
)
from penstock.client.holding import Holding
from penstock.client.options import FlowCommand
from penstock.client.outbox import Message, Outbox, Receipt

log = logging.getLogger("penstock.client")

COMMANDS: Final[tuple[Literal["flow", "blocked"], ...]] = ("flow", "blocked")

INNOCENT: Final = frozenset({0, 200, 311, 320})
"""Reply codes of a close that is no message's fault: none, success, held for too long, closed by an operator."""

ROUTELESS: Final = frozenset({312, 313})
"""Reply codes of basic.return: no route, no consumers (specification, section 1.2.2)."""

PRODUCT: Final = "penstock producer"
"""Product in the client properties: a broker that knows it may send Channel.Flow."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Counts of messages since the producer was made, unconfirmed messages, and how long it was held (seconds)."""

    accepted: int = 0
    sent: int = 0
    sent_again: int = 0
    confirmed: int = 0
    rejected: int = 0
    returned: int = 0
    refused: int = 0
    given_up: int = 0
    dropped: int = 0
    full: int = 0
    timed_out: int = 0
    connections: int = 0
    flow_commands: int = 0
    unconfirmed: int = 0
    unconfirmed_bytes: int = 0
    waiting: int = 0
    held: bool = False
    held_seconds: float = 0.0
    held_seconds_by_cause: Mapping[str, float] = field(default_factory=dict)


class Core:
    """State of a producer: sends, confirms, causes of holding. Times (`now`) are seconds of the shell's clock."""

    def __init__(self, count: int, nbytes: int, report_seconds: float, target: str, now: float) -> None:
        self.outbox = Outbox(count, nbytes)
        self.holding = Holding()
        self.target = target
        self.report_seconds = report_seconds
        self.outcomes: list[tuple[Receipt, str | ProducerError]] = []
        self.commands: list[FlowCommand] = []
        self.waiting: dict[object, float] = {}
        """Callers waiting in `send` or `flush`, with the start of the wait."""
        self.counts = dict.fromkeys(
            ("accepted", "sent", "sent_again", "confirmed", "rejected", "returned", "refused", "given_up", "dropped",
             "full", "timed_out", "connections", "flow_commands"), 0,
        )  # fmt: skip
        self._reported = now
        self._complained = -report_seconds
        self._suppressed = 0
        self.holding.hold("connection", f"no connection to {target} yet", now)

    # Calls by the user of the producer.

    def accept(
        self,
        body: bytes,
        exchange: str,
        routing_key: str,
        properties: Mapping[str, Any] | None,
        mandatory: bool,
        receipt: Receipt,
        now: float,
    ) -> None:
        """Accept a message; the shell has checked that nothing holds the producer."""
        named = {"delivery_mode": 2, **(properties or {})}
        named.setdefault("message_id", str(uuid4()))
        self.outbox.add(Message(body, exchange, routing_key, named, mandatory, receipt))
        self.counts["accepted"] += 1
        self._update_window(now)

    def due(self) -> Iterator[tuple[int, Message]]:
        """Yield the messages to publish now, each with its confirm tag, until something holds the producer."""
        for tag, message in self.outbox.publish() if self.may_publish else ():
            self.counts["sent_again" if message.sent > 1 else "sent"] += 1
            yield tag, message
            if not self.may_publish:
                return

    @property
    def may_publish(self) -> bool:
        """Whether neither a lost connection nor the broker's flow control holds the producer."""
        return not any(cause in self.holding for cause in ("connection", "flow", "blocked"))

    def log_waiting(self, now: float) -> None:
        """Log why callers wait, once in `report_seconds` for all of them."""
        since = min(self.waiting.values(), default=now)
        if now < max(self._reported, since) + self.report_seconds:
            return
        self._reported = now
        others = f" ({len(self.waiting)} wait)" if len(self.waiting) > 1 else ""
        log.warning("still blocked for %.0f s, by %s%s", now - since, self.why(), others)

    def full(self) -> Full:
        """The error for a `send` that may not wait."""
        self.counts["full"] += 1
        if "connection" in self.holding:
            return NotConnected(self.why())
        return WindowFull(self.why()) if self.may_publish else Stopped(self.why())

    @property
    def settled_count(self) -> int:
        """Number of messages that the broker has settled so far."""
        return sum(self.counts[name] for name in ("confirmed", "rejected", "returned"))

    def why(self) -> str:
        """The causes that hold the producer, for people."""
        return self.holding.text() or f"{len(self.outbox)} messages to {self.target} are not confirmed"

    # Events from the broker.

    def connected(self, now: float) -> None:
        """Handle a new connection."""
        self.counts["connections"] += 1
        seconds = self.holding.release("connection", now)
        log.info("connected to %s after %.1f s", self.target, seconds or 0.0)

    def disconnected(self, code: int, text: str, now: float) -> None:
        """Handle the loss of channel or connection; `code` is 0 if the broker gave no reason."""
        said = f"{code} {text}" if code else text
        again = self.outbox.in_flight
        culprit = self.outbox.lost(blame=code not in INNOCENT)
        if culprit:
            again -= 1
            self.counts["refused"] += 1
            self._fail(culprit, Refused(code, text), now)
        if "connection" in self.holding:
            log.warning("no connection to %s: %s", self.target, said)
        else:
            log.warning("connection to %s lost: %s; to be resent: %d", self.target, said, again)
        for cause in COMMANDS:
            seconds = self.holding.release(cause, now)
            if seconds is not None:
                self.commands.append(FlowCommand(False, cause, f"connection lost: {said}", seconds))
        self.holding.hold("connection", f"no connection to {self.target}: {said}", now)
        self._update_window(now)

    def flow(self, active: bool, now: float) -> None:
        """Handle Channel.Flow (specification: channel.flow)."""
        self.counts["flow_commands"] += 1
        if not active:
            log.info("channel.flow from %s: stop", self.target)
            self.holding.hold("flow", f"channel.flow of {self.target}", now)
            self.commands.append(FlowCommand(True, "flow", "", 0.0))
        else:
            seconds = self.holding.release("flow", now) or 0.0
            log.info("channel.flow from %s: go on, after %.1f s", self.target, seconds)
            self.commands.append(FlowCommand(False, "flow", "", seconds))

    def blocked(self, reason: str, now: float) -> None:
        """Handle connection.blocked (RabbitMQ extension)."""
        self.counts["flow_commands"] += 1
        log.info("connection.blocked from %s: %s", self.target, reason)
        self.holding.hold("blocked", f"connection.blocked of {self.target}: {reason}", now)
        self.commands.append(FlowCommand(True, "blocked", reason, 0.0))

    def unblocked(self, now: float) -> None:
        """Handle connection.unblocked (RabbitMQ extension)."""
        self.counts["flow_commands"] += 1
        seconds = self.holding.release("blocked", now) or 0.0
        log.info("connection.unblocked from %s after %.1f s", self.target, seconds)
        self.commands.append(FlowCommand(False, "blocked", "", seconds))

    def returned(
        self, message_id: str, code: int, text: str, exchange: str, routing_key: str, headers: dict[str, object]
    ) -> None:
        """Handle basic.return; the message's ack follows."""
        error = error_of_return(self.target, code, text, exchange, routing_key, headers)
        self.outbox.returned(message_id, error)

    def settled(self, tag: int, multiple: bool, taken: bool, now: float) -> None:
        """Handle basic.ack (`taken`) or basic.nack."""
        for message in self.outbox.settle(tag, multiple):
            if message.returned is not None:
                self.counts["returned" if isinstance(message.returned, Unroutable) else "rejected"] += 1
                self._fail(message, message.returned, now)
            elif taken:
                self.counts["confirmed"] += 1
                self.outcomes.append((message.receipt, message.message_id))
            else:
                self.counts["rejected"] += 1
                self._fail(message, Rejected(f"refused by {self.target}: {_where(message)}"), now)
        self._update_window(now)

    def give_up(self, error: ProducerError, now: float) -> None:
        """Fail all messages that are not settled."""
        for message in self.outbox.clear():
            self.counts["given_up"] += 1
            self._fail(message, error, now)
        self._update_window(now)

    def metrics(self, now: float) -> Metrics:
        """The counters, as of `now`."""
        return Metrics(
            **self.counts,
            unconfirmed=len(self.outbox),
            unconfirmed_bytes=self.outbox.nbytes,
            waiting=len(self.waiting),
            held=bool(self.holding),
            held_seconds=self.holding.held_seconds(now),
            held_seconds_by_cause=self.holding.seconds(now),
        )

    def _fail(self, message: Message, error: ProducerError, now: float) -> None:
        self.outcomes.append((message.receipt, error))
        if now < self._complained + self.report_seconds:
            self._suppressed += 1
            return
        more = f" (and {self._suppressed} before)" if self._suppressed else ""
        self._complained, self._suppressed = now, 0
        log.warning("message %s failed: %s: %s%s", message.message_id, type(error).__name__, error, more)

    def _update_window(self, now: float) -> None:
        outbox = self.outbox
        if not outbox.full:
            self.holding.release("window", now)
        elif "window" not in self.holding:
            text = f"{len(outbox)} of {outbox.limit_count} messages to {self.target} are not confirmed"
            if len(outbox) < outbox.limit_count:
                text = f"{outbox.nbytes} of {outbox.limit_bytes} bytes to {self.target} are not confirmed"
            self.holding.hold("window", text, now)


def error_of_return(
    target: str, code: int, text: str, exchange: str, routing_key: str, headers: dict[str, object]
) -> Unroutable | Rejected:
    """Return the error for a message that `target` has returned (basic.return)."""
    error = Unroutable(code, text, exchange, routing_key, headers)
    return error if code in ROUTELESS else Rejected(f"refused by {target}: {error}", headers)


def resolve(outcomes: list[tuple[Receipt, str | ProducerError]]) -> None:
    """Fulfil receipts, except those that their holders have cancelled."""
    for receipt, outcome in outcomes:
        if receipt.done():
            continue
        if isinstance(outcome, str):
            receipt.set_result(outcome)
        else:
            receipt.set_exception(outcome)


def report_commands(on_flow: Callable[[FlowCommand], object] | None, commands: list[FlowCommand]) -> None:
    """Report flow commands to the caller. An exception in its callback is logged, and stops nothing."""
    if on_flow is None:
        return
    for command in commands:
        try:
            on_flow(command)
        except Exception:
            log.exception("on_flow failed")


def _where(message: Message) -> str:
    return f"exchange {message.exchange!r}, routing key {message.routing_key!r}"
