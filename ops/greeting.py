"""How a listener, or a port of the HTTP interface, of a running node receives a client."""

from __future__ import annotations

import socket
from typing import Any

from ops.listeners import described

SECONDS = 5.0
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
HTTP_REQUEST = b"HEAD / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
HTTP_ANSWER = b"HTTP/1."
START = b"\x01\x00\x00"
"""The beginning of a method frame on channel 0 (AMQP 0-9-1, 2.3.5): connection.start."""


def greets(listener: dict[str, Any]) -> tuple[bool, str]:
    """Whether a listener (`ops.listeners`) greets a client with connection.start, and what was found, in words. Where
    clients need a certificate, a TLS handshake has to do.
    """
    where = described(listener)
    try:
        with _connected(listener) as client:
            if listener["client_certificates"] == "required":
                return True, f"{where} shows its certificate"
            client.sendall(PROTOCOL_HEADER)
            with client.makefile("rb") as answer:
                answered = answer.read(len(START))
    except OSError as error:
        return False, f"{where} does not answer: {error.strerror or error}"
    return answered == START, f"{where} {'greets' if answered == START else 'does not greet'} clients"


def answers(port: dict[str, Any]) -> tuple[bool, str]:
    """Whether a port of the HTTP interface (`ops.listeners`) answers a request, and what was found, in words."""
    where = f"{port['name']} on {described(port)}"
    try:
        with _connected(port) as client:
            client.sendall(HTTP_REQUEST)
            with client.makefile("rb") as answer:
                answered = answer.read(len(HTTP_ANSWER))
    except OSError as error:
        return False, f"{where} does not answer: {error.strerror or error}"
    return answered == HTTP_ANSWER, f"{where} {'answers' if answered == HTTP_ANSWER else 'does not speak HTTP'}"


def _connected(listener: dict[str, Any]) -> socket.socket:
    """Connect. The certificate is not checked: the node is one's own."""
    host, _, port = str(listener["address"]).rpartition(":")
    plain = socket.create_connection((host.strip("[]"), int(port)), SECONDS)
    if not listener["tls"]:
        return plain
    from ops.tls.unchecked import unchecked  # not at the top: few nodes need it

    try:
        return unchecked().wrap_socket(plain)
    except OSError:
        plain.close()
        raise
