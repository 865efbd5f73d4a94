"""What a server shows to a client in a TLS handshake."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from ops.tls.unchecked import unchecked
from penstock.tls.certificates import Certificate, certificate_of
from penstock.tls.errors import reason

SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Shown:
    """The version and cipher that were agreed on, the server's certificate, and why a client would refuse it; "" if
    none would.
    """

    version: str
    cipher: str
    certificate: Certificate
    problem: str


def probe(host: str, port: int, name: str, authorities: Path | None) -> Shown:
    """Shake hands with a server, as a client that asks for the host `name`. OSError, also of OpenSSL, if that fails.

    The certificate is checked by the authorities of a file, or (None) of the system.
    """
    try:
        version, cipher, der = _shake_hands(host, port, name, _verifying(authorities))
        problem = ""
    except ssl.SSLCertVerificationError as error:
        problem = error.verify_message or reason(error)
        version, cipher, der = _shake_hands(host, port, name, unchecked())
    return Shown(version, cipher, certificate_of(Path(f"{host}:{port}"), x509.load_der_x509_certificate(der)), problem)


def _verifying(authorities: Path | None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=None if authorities is None else str(authorities))


def _shake_hands(host: str, port: int, name: str, context: ssl.SSLContext) -> tuple[str, str, bytes]:
    with (
        socket.create_connection((host, port), SECONDS) as connection,
        context.wrap_socket(connection, server_hostname=name) as tls,
    ):
        der, agreed = tls.getpeercert(binary_form=True), tls.cipher()
        assert der is not None and agreed is not None
        return tls.version() or "", agreed[0], der
