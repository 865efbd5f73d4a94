"""The program at the other end of a connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acceptor.clients.tls_facts import TlsFacts
from acceptor.clients.traits import Traits, kept, traits_of


class Client:
    """A client: its address, `peer` with the port and `host` without, and what it has said about itself.

    `name` is for log lines: product, version and connection name. `properties` and `traits` are those of an unknown
    client until it is identified. `tls` is None without TLS.
    """

    __slots__ = ("host", "name", "peer", "properties", "tls", "traits")

    def __init__(self, peer: str, host: str, tls: TlsFacts | None = None) -> None:
        self.peer = peer
        self.host = host
        self.tls = tls
        self.name = ""
        self.properties: dict[str, Any] = {}
        self.traits = Traits()

    def identify(self, properties: Mapping[str, Any]) -> None:
        """Keep the client-properties, and derive the client's traits from them."""
        self.properties = kept(properties)
        self.traits = traits_of(self.properties)
        words = (self.said(name) for name in ("product", "version", "connection_name"))
        self.name = " ".join(word for word in words if word)[:255]

    def said(self, name: str) -> str | None:
        """Return a client-property as text of at most 255 characters; None if it is missing or empty."""
        word = self.properties.get(name)
        return str(word)[:255] if word else None

    def has_capability(self, name: str) -> bool:
        """Whether the client has declared a capability (RabbitMQ's extension of client-properties)."""
        capabilities = self.properties.get("capabilities")
        return isinstance(capabilities, dict) and capabilities.get(name) is True
