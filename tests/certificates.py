"""Certificates for tests: an authority of its own for each run, and sessions of clients in memory."""

from __future__ import annotations

import ssl
import tempfile
from datetime import timedelta
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import NameOID

from ops.tls.authority import Authority
from penstock.settings.listeners import ListenerSettings
from penstock.tls.certificates import now

YEAR = timedelta(days=365)


@cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="penstock-certificates-")


@cache
def authority() -> Authority:
    """Return the authority of this process of the tests."""
    return Authority.at(Path(_directory().name), YEAR)


def authority_file() -> Path:
    """Return the file of the authority's certificate, for clients to trust."""
    return authority().directory / "authority.pem"


@cache
def server(*names: str) -> Path:
    """Return the file of a server's certificate, with its key, for these names or those of this machine."""
    wanted = names or ("localhost", "127.0.0.1")
    return authority().server(wanted, YEAR, f"server-{'-'.join(wanted).replace('*', 'any')}.pem")


@cache
def client(user: str = "guest") -> Path:
    """Return the file of a client's certificate, with its key."""
    return authority().client(user, YEAR)


@cache
def foreign_client() -> Path:
    """Return the file of a client's certificate from an authority that nobody trusts."""
    return Authority.at(authority().directory / "foreign", YEAR).client("guest", YEAR)


def locked_key() -> bytes:
    """Return a key that is encrypted with a password."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )


@cache
def detailed_client() -> bytes:
    """Return a client's certificate (DER) that names a user in each part that may."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "ann"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "press"),
        ]
    )
    alternatives = [
        x509.DNSName("ann.example.org"), x509.RFC822Name("ann@example.org"),
        x509.UniformResourceIdentifier("spiffe://example.org/ann"),
    ]  # fmt: skip
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority().certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now())
        .not_valid_after(now() + YEAR)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(authority().key, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


def settings(**changes: object) -> ListenerSettings:
    """Return the settings of a listener with TLS."""
    return ListenerSettings.model_validate({"certificates": (server(),), **changes})


def client_context(certificate: Path | None = None) -> ssl.SSLContext:
    """Return the context of a client that verifies its server."""
    context = ssl.create_default_context(cafile=str(authority_file()))
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


class ClientSession:
    """The client's side of a TLS session, without a socket."""

    def __init__(
        self, context: ssl.SSLContext | None = None, name: str = "localhost", resumes: ssl.SSLSession | None = None
    ) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client_context() if context is None else context
        self.session = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name, session=resumes)

    def shake_hands(self, ciphertext: bytes = b"") -> bool:
        """Feed what the server has sent; return whether the handshake is complete."""
        self.incoming.write(ciphertext)
        try:
            self.session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def read(self, ciphertext: bytes) -> bytes:
        """Decrypt what the server has sent; "" at its end."""
        self.incoming.write(ciphertext)
        found = b""
        while True:
            try:
                part = self.session.read(1 << 16)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                return found
            if not part:
                return found
            found += part

    def write(self, plaintext: bytes) -> bytes:
        """Return the ciphertext of bytes."""
        if plaintext:
            self.session.write(plaintext)
        return self.output()

    def output(self) -> bytes:
        """Return what has to be sent to the server."""
        return self.outgoing.read()
