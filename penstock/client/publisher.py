"""Publishes on a connection of py-amqp beside kombu's channels, for `penstock.client.kombu`.

A publish that finds no room waits in the broker, and everything else on its channel waits behind it. So a connection
publishes over channels of its own, one at a time:

    free ──publish──▶ waiting for the confirm ──ack, nack──▶ free
                           └──(not in time)──▶ overdue ──ack, nack──▶ free

While a publish is overdue, others to its destination are refused at once, and those to other destinations go over
another channel.
"""

from __future__ import annotations

import time
from typing import Any, Final

from amqp.exceptions import RecoverableConnectionError

from penstock.client.amqp_link import LimitedConnection, PublishingChannel, is_over
from penstock.client.errors import ProducerError, Rejected, Stopped, Unconfirmed
from penstock.client.unconfirmed import Destination, Publish

MOST_CHANNELS: Final = 8
"""The most publishing channels of a connection, so the most destinations that have overdue publishes."""


class Publisher:
    """The publishing channels of one connection."""

    def __init__(self, connection: LimitedConnection) -> None:
        self._connection = connection
        self._channels: list[PublishingChannel] = []
        self.sound = False
        """Whether the last publish failed by an error of the producer's: the connection is as good as ever."""

    def publish(self, message: Any, destination: Destination, flags: dict[str, bool], seconds: float) -> None:
        """Publish a message and wait for its confirm, at most `seconds` in all.

        Stopped: it was not sent. Unconfirmed: it may still be queued. Rejected, Unroutable: it was nacked, returned.
        Errors of py-amqp: the connection is lost, or the broker has closed the channel because of the message.
        """
        self.sound = False
        try:
            self._publish(message, destination, flags, seconds)
        except ProducerError:
            self.sound = True
            raise

    def _publish(self, message: Any, destination: Destination, flags: dict[str, bool], seconds: float) -> None:
        self._refuse_if_overdue(destination)
        publish = Publish(destination, time.monotonic())
        alone = not self.overdue()  # a connection that several queues hold is told the reason of the first
        try:
            with self._connection.within(seconds):
                channel = self._send(publish, message, flags)
                while publish.taken is None and channel.is_open:
                    self._connection.drain_events()
        except TimeoutError as late:
            if not is_over(late):
                raise
            publish.overdue, publish.held_by = True, self._connection.blocked if alone else ""
            text = f"no confirm within {seconds:g} s, the message may still be queued: {destination}"
            raise Unconfirmed(self._connection.describe(text, publish.held_by)) from None
        self._raise_unless_taken(publish)

    def _raise_unless_taken(self, publish: Publish) -> None:
        if publish.error is not None:
            raise publish.error
        if publish.taken is None:
            raise RecoverableConnectionError("connection closed before the confirm")
        if not publish.taken:
            raise Rejected(self._connection.describe(f"refused: {publish.destination}"))

    def overdue(self) -> list[Publish]:
        """The publishes for which nobody waits any longer, as far as confirms have been read."""
        return [publish for channel in self._channels for publish in channel.unsettled.overdue()]

    def _refuse_if_overdue(self, destination: Destination) -> None:
        """Stopped if an overdue publish to the destination is still not confirmed."""
        if not self.overdue():
            return
        self._connection.drain_arrived()
        for overdue in self.overdue():
            if overdue.destination == destination:
                seconds = time.monotonic() - overdue.begun_at
                text = f"not sent, as another message has waited {seconds:.1f} s for its confirm: {destination}"
                raise Stopped(self._connection.describe(text, overdue.held_by))

    def _send(self, publish: Publish, message: Any, flags: dict[str, bool]) -> PublishingChannel:
        """Write a publish to a channel that no other holds up; return the channel."""
        try:
            self._wait_while_blocked()
            channel = self._free_channel()
            seconds = self._connection.left()
            deadline = time.monotonic() + seconds
        except TimeoutError as late:
            if not is_over(late):
                raise
            raise Stopped(self._connection.describe(f"not sent: {publish.destination}")) from None
        try:
            channel.send(publish, message, flags, seconds)
        except RecoverableConnectionError:
            if time.monotonic() < deadline:
                raise
            self._connection.collect()
            text = f"not sent, as the broker reads too little, connection closed: {publish.destination}"
            raise Stopped(self._connection.describe(text)) from None
        return channel

    def _wait_while_blocked(self) -> None:
        """Wait while a broker that blocks connections as a whole has blocked this one. Penstock holds channels."""
        while self._connection.blocked and "penstock_version" not in self._connection.server_properties:
            self._connection.drain_events()

    def _free_channel(self) -> PublishingChannel:
        self._channels = [channel for channel in self._channels if channel.is_open]
        for channel in self._channels:
            if not channel.unsettled:
                return channel
        if len(self._channels) < MOST_CHANNELS:
            self._channels.append(PublishingChannel(self._connection))
            return self._channels[-1]
        for channel in self._channels:
            if not channel.unsettled.overdue():  # that of a callback of the program's, which has published in turn
                return channel
        raise Stopped(self._connection.describe(f"not sent, as {MOST_CHANNELS} other destinations have no room"))
