"""What each method of a channel does. A handler that must ask elsewhere is a generator of what it asks."""

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
