"""Handlers of the methods of a channel. A handler that needs other processes is a generator of its requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from acceptor.asking import Handling
from acceptor.methods import access, basic, channel, confirm, exchange, queue, tx

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
