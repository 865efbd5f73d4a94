"""Handlers of the methods of a channel. A handler that needs other processes is a generator of its requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from acceptor.amqp.methods import access, basic, channel, confirm, exchange, queue, tx
from acceptor.clients.asking import Handling

Handler = Callable[[Any, dict[str, Any]], Handling | None]

HANDLERS: dict[str, Handler] = {
    **access.HANDLERS,
    **basic.HANDLERS,
    **channel.HANDLERS,
    **confirm.HANDLERS,
    **exchange.HANDLERS,
    **queue.HANDLERS,
    **tx.HANDLERS,
}
