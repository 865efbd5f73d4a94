"""Listeners with TLS of nodes that tests start."""

from __future__ import annotations

from pathlib import Path

from ops.claim import Pointer
from penstock.node.node import Node
from tests import certificates
from tests.broker.process import Broker
from tests.raw import Address


def listening(*assignments: str, name: str = "public", certificate: Path | None = None) -> list[str]:
    """Return the settings of a listener with TLS on a free port."""
    mine = [f"certificates={certificate or certificates.server()}", "port=0", *assignments]
    return [f"listeners.{name}.{each}" for each in mine]


def with_clients(wanted: str) -> list[str]:
    """Return the settings for certificates of clients."""
    return [f"client_certificates={wanted}", f"client_authorities={certificates.authority_file()}"]


def address_of(broker: Broker, name: str = "public") -> Address:
    """Return where a listener of a node serves."""
    pointer = Pointer.load(broker.directory / "data")
    assert pointer
    return Address(*Node.load(pointer.runtime).listeners[name])
