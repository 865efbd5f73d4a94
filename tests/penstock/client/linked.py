"""A connection of `penstock.client.amqp_link`, with the test in place of the broker."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock.client.amqp_link import LimitedConnection, PublishingChannel
from tests.penstock.client.peer import Listener, Peer

SECONDS = 0.3
"""The `confirm_timeout` of connections."""


class Link:
    """A connection, its peer, and threads in which calls wait for the peer."""

    def __init__(self, listener: Listener, threads: ThreadPoolExecutor, **options: Any) -> None:
        self.threads = threads
        login = {"userid": "guest", "password": "guest", "login_method": "PLAIN"}
        self.connection = LimitedConnection(listener.address, **login, **{"confirm_timeout": SECONDS, **options})
        connecting = threads.submit(self.connection.connect)
        self.peer: Peer = listener.connection()
        self.peer.greet()
        self.peer.take("connection.open")
        self.peer.send("connection.open-ok")
        connecting.result()

    def channel(self) -> PublishingChannel:
        """Open a channel."""
        opening = self.threads.submit(PublishingChannel, self.connection)
        self.peer.open_channel()
        return opening.result()
