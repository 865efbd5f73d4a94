"""The TLS contexts of a listener (OpenSSL's SSL_CTX).

A listener has one outer context, with which connections begin: it has the keys of session tickets. Acceptors inherit it
from the process that they are forked from, so a ticket is good at each of them. The certificates are in inner contexts:
as soon as the client has named the host that it wants, the connection is given the one for it. Versions and the
authorities of clients are then those of the outer context, ciphers those of the inner one: all have the same.

A certificate that is replaced gets a new inner context, which is checked before it serves: to load a pair that does not
match into a context that serves would break that for all. Tickets stay good.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.settings.listeners import ClientCertificates, ListenerSettings
from penstock.tls.certificates import Certificate, read_certificate
from penstock.tls.errors import TlsError, reason, unreadable

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
VERIFY = {
    ClientCertificates.NONE: ssl.CERT_NONE,
    ClientCertificates.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientCertificates.REQUIRED: ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class Inner:
    """One certificate of a listener, with its context."""

    certificate: Certificate
    context: ssl.SSLContext


def outer_context(settings: ListenerSettings) -> ssl.SSLContext:
    """Return a context without certificates. TlsError if the ciphers or the authorities of clients are wrong."""
    context = _context(settings)
    context.num_tickets = 1
    return context


def inner_contexts(settings: ListenerSettings) -> tuple[Inner, ...]:
    """Return the certificates of a listener, each in a context of its own. TlsError names the file that is wrong."""
    return tuple(_inner(settings, certificate, key) for certificate, key in settings.pairs)


def choose(inners: Sequence[Inner], name: str | None) -> Inner:
    """Return the first one for the host that a client wants, or else the first."""
    return next((inner for inner in inners if name and inner.certificate.is_for(name)), inners[0])


def _inner(settings: ListenerSettings, certificate: Path, key: Path) -> Inner:
    read = read_certificate(certificate)
    context = _context(settings)

    def no_password() -> str:
        raise TlsError(f"key {key}: it is encrypted; penstock asks for no password")

    try:
        context.load_cert_chain(certificate, key, no_password)
    except OSError as error:  # also of OpenSSL
        what = "certificate and key" if certificate == key else f"certificate {certificate} with key"
        raise unreadable(what, key, error) from None
    return Inner(read, context)


def _context(settings: ListenerSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[settings.tls_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_mode = VERIFY[settings.client_certificates]
    try:
        context.set_ciphers(settings.ciphers)
    except ssl.SSLError as error:
        raise TlsError(f"ciphers {settings.ciphers!r}: {reason(error)}") from None
    if settings.client_authorities is not None:
        try:
            context.load_verify_locations(settings.client_authorities)
        except OSError as error:
            raise unreadable("client_authorities", settings.client_authorities, error) from None
    return context
