"""Certificates: the facts that matter to a listener and its operator (RFC 5280)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID

from penstock.settings.listeners import LoginFrom
from penstock.tls.errors import TlsError, unreadable


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of a listener: whom it is for and how long. `names` are DNS names, in lower case, and addresses."""

    path: Path
    subject: str
    issuer: str
    names: tuple[str, ...]
    not_before: datetime
    not_after: datetime

    def is_for(self, name: str) -> bool:
        """Whether it is for a host; `*.` stands for one label (RFC 6125, 6.4.3)."""
        host = name.lower().rstrip(".")
        label, _, rest = host.partition(".")
        return host in self.names or bool(label and rest and f"*.{rest}" in self.names)

    def facts(self, listener: str, now: datetime) -> dict[str, Any]:
        """Return its facts as a listener's (`acceptor.questions`)."""
        return {
            "listener": listener,
            "certificate": str(self.path),
            "subject": self.subject,
            "issuer": self.issuer,
            "names": list(self.names),
            "expires": self.not_after.isoformat(),
            "seconds_left": round(self.seconds_left(now)),
        }

    def seconds_left(self, now: datetime) -> float:
        """Return how long it is valid, in seconds; negative once it has expired."""
        return (self.not_after - now).total_seconds()


def read_certificate(path: Path) -> Certificate:
    """Read the first certificate of a file in PEM. TlsError if there is none that can be read."""
    try:
        return certificate_of(path, x509.load_pem_x509_certificate(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise unreadable("certificate", path, error) from None


def user_of(certificate: bytes, part: LoginFrom) -> str | None:
    """Return the user that a client's certificate (DER) names in a part of it; None if it has no such part."""
    try:
        known = x509.load_der_x509_certificate(certificate)
        if part is LoginFrom.DISTINGUISHED_NAME:
            return known.subject.rfc4514_string() or None
        if part is LoginFrom.COMMON_NAME:
            return next((str(each.value) for each in known.subject.get_attributes_for_oid(NameOID.COMMON_NAME)), None)
        kinds = {LoginFrom.DNS: x509.DNSName, LoginFrom.EMAIL: x509.RFC822Name, LoginFrom.URI: (
            x509.UniformResourceIdentifier
        )}  # fmt: skip
        found = _alternatives(known)
        return next((str(each.value) for each in found if isinstance(each, kinds[part])), None)
    except ValueError as error:  # parts are parsed when they are used
        raise TlsError(f"the certificate cannot be read: {error}") from None


def subject_of(certificate: bytes) -> str:
    """Return the subject of a client's certificate (DER); "" if it cannot be read."""
    try:
        return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
    except ValueError:
        return ""


def certificate_of(path: Path, read: x509.Certificate) -> Certificate:
    """Return the facts of a certificate that was read."""
    names = [
        str(each.value).lower() for each in _alternatives(read) if isinstance(each, x509.DNSName | x509.IPAddress)
    ]  # fmt: skip
    return Certificate(
        path=path,
        subject=read.subject.rfc4514_string(),
        issuer=read.issuer.rfc4514_string(),
        names=tuple(names),
        not_before=read.not_valid_before_utc,
        not_after=read.not_valid_after_utc,
    )


def _alternatives(read: x509.Certificate) -> list[x509.GeneralName]:
    try:
        extension = read.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
    except x509.ExtensionNotFound:
        return []
    assert isinstance(extension.value, x509.SubjectAlternativeName)
    return list(extension.value)


def is_address(name: str) -> bool:
    """Whether a name is an IP address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def now() -> datetime:
    """Return the present, as the dates of certificates are compared with."""
    return datetime.now(UTC)
