"""Addresses of brokers, as relays and pika know them."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from ops import port
from ops.errors import CommandError
from penstock.client.extra import needs_extra

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  compared, not bound
"""Addresses to listen on that are none to connect to, and theirs of this machine."""
LOCAL = {"localhost": "127.0.0.1"}


class Place(NamedTuple):
    """A vhost of a broker."""

    host: str
    port: int
    vhost: str

    def __str__(self) -> str:
        return f"{port.show(self.host, self.port)}/{quote(self.vhost, safe='')}"


def place_of(parameters: Any) -> Place:
    """Return where pika's parameters lead."""
    return Place(LOCAL.get(parameters.host, parameters.host), parameters.port, parameters.virtual_host)


def url_of_node(local: tuple[str, int] | None, vhost: str) -> str:
    """Return the AMQP URL of a node of this machine that listens without TLS on a host and a port, for `guest`.
    CommandError if it does nowhere (None).
    """
    if local is None:
        raise CommandError("this node has no listener without TLS: give a URL that begins with amqps://")
    host, number = local
    return f"amqp://guest:guest@{port.show(WILDCARDS.get(host, host), number)}/{quote(vhost, safe='')}"


def parameters(url: str, name: str = "penstock relay") -> Any:
    """Return pika's parameters for an AMQP URL, with the name that brokers show for the connection. CommandError if it
    is none, or pika is missing.
    """
    try:
        with needs_extra("client"):
            from penstock.client.link import parameters_of
    except ImportError as missing:
        raise CommandError(str(missing)) from None
    if not url.startswith(("amqp://", "amqps://")):
        raise CommandError("an AMQP URL begins with amqp:// or amqps://")
    _check(url)
    try:
        return parameters_of(url, name)
    except Exception as error:  # pika raises what int() and its own checks raise
        raise CommandError(f"no AMQP URL: {error}") from None


def _check(url: str) -> None:
    """Refuse a URL for which pika's error would quote a part of the password, or say nothing."""
    try:
        parts = urlsplit(url)
        number = parts.port
    except ValueError:
        raise CommandError("no AMQP URL: its port is none; in a password / is %2F, @ is %40, : is %3A") from None
    if number == 0:
        raise CommandError("no AMQP URL: its port is 0")
    if parts.username is not None and parts.password is None:
        raise CommandError("no AMQP URL: it has a user without a password")
