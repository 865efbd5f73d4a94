"""Where a node serves, as RabbitMQ's management shows it: listeners of all protocols, and contexts of HTTP."""

from __future__ import annotations

from console.broker import Facts
from penstock.node.node import Node, node_name

OPTIONS: Facts = {}


def listeners(node: Node) -> list[Facts]:
    """Return the listeners of AMQP and HTTP."""
    found = [("amqp", node.host, node.port)] if node.settings.plain else []
    for name, (host, port) in node.listeners.items():
        found.append(("amqp/ssl" if node.settings.listeners[name].is_tls else "amqp", host, port))
    for name, (host, port) in node.http.items():
        protocol = "http" if name == "api" else "http/prometheus"
        found.append(("https" if name == "api" and _is_tls(node) else protocol, host, port))
    return [
        {"node": node_name(), "protocol": protocol, "ip_address": host, "port": port, "socket_opts": OPTIONS}
        for protocol, host, port in found
    ]


def contexts(node: Node) -> list[Facts]:
    """Return the parts that HTTP serves."""
    return [
        {
            "node": node_name(),
            "description": "management and console" if name == "api" else "metrics",
            "path": "/",
            "ip": host,
            "port": str(port),
            "ssl_opts": [],
        }
        for name, (host, port) in node.http.items()
    ]


def _is_tls(node: Node) -> bool:
    return node.settings.http.secured is not None
