"""Which messages a relay takes, by their headers and their age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ops.errors import CommandError
from ops.relay.delivery import Delivery
from penstock.amqp.errors import FrameSyntaxError
from penstock.amqp.properties import decode_some


class Selection:
    """Messages that have all of some `headers`, each given as NAME=VALUE, and are older than some seconds by their
    property `timestamp`.
    """

    def __init__(self, headers: Sequence[str], older_than: float | None) -> None:
        """CommandError if a header is not NAME=VALUE."""
        self._headers = [_pair(each) for each in headers]
        self._older_than = older_than

    def has(self, delivery: Delivery, now: float) -> bool:
        """Whether a message is among them at `now`, in seconds since 1970. One whose properties cannot be read is not,
        unless all are.
        """
        if not self._headers and self._older_than is None:
            return True
        try:
            properties = decode_some(delivery.properties, ("headers", "timestamp"))
        except FrameSyntaxError:
            return False
        headers, timestamp = properties.get("headers"), properties.get("timestamp")
        found = headers if isinstance(headers, Mapping) else {}
        if any(name not in found or _text(found[name]) != value for name, value in self._headers):
            return False
        return self._older_than is None or (isinstance(timestamp, int) and timestamp < now - self._older_than)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandError(f"a header is given as NAME=VALUE, not '{text}'")
    return name, value


def _text(value: object) -> str:
    """Return a header's value as it is given on the command line: numbers in digits, true, false."""
    if isinstance(value, bool):
        return str(value).lower()
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
