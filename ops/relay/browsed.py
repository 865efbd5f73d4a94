"""All ready messages of a queue of the running node, looked at page by page: they stay there."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ops.administration.processes import Processes
from ops.errors import CommandError
from ops.relay.delivery import Delivery
from penstock.amqp.properties import PROPERTIES_AT

PAGE = 500
"""Messages of one question; the shard answers with fewer if they are large."""
WHOLE_BODY = 2**31


class Browsed:
    """A queue, and the number of messages that were ready at first. CommandError if it does not exist."""

    def __init__(self, data: Path | None, vhost: str, queue: str) -> None:
        self._processes = Processes(data)
        found = self._processes.command("queue", vhost=vhost, name=queue)
        if found is None:
            raise CommandError(f"there is no queue '{queue}' in vhost '{vhost}'")
        self._shard, self._id, self.ready = found["shard"], found["id"], int(found["ready"])

    def messages(self, skip: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the messages that were ready at first, but the first `skip`, as `shard.browsing` has them. Those that
        consumers take meanwhile make it miss as many.
        """
        at = skip
        while at < self.ready:
            page = self._processes.ask(
                "shard", self._shard, "messages",
                id=self._id, skip=at, count=min(PAGE, self.ready - at), body_bytes=WHOLE_BODY,
            )["messages"]  # fmt: skip
            if not page:
                return
            yield from page
            at += len(page)

    def deliveries(self, skip: int = 0) -> Iterator[Delivery]:
        """As `messages`, for a relay."""
        for message in self.messages(skip):
            properties = base64.b64decode(message["header"])[PROPERTIES_AT:]
            body = base64.b64decode(message["body"])
            yield Delivery(0, message["exchange"], message["routing_key"], properties, body)
