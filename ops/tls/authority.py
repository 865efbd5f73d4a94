"""An authority for development and tests: certificates of servers and clients, with keys that nobody protects."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.tls.certificates import is_address, now

CERTIFICATE = "authority.pem"
KEY = "authority.key"
BACKDATED = timedelta(minutes=5)
"""How long before they are made certificates are valid: other machines' clocks may be behind."""
PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority in a directory: its certificate (`authority.pem`) and its key."""

    directory: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def at(cls, directory: Path, valid: timedelta) -> Self:
        """Read the authority of a directory, or make one. OSError or ValueError if that fails."""
        if (directory / CERTIFICATE).exists():
            return cls._read(directory)
        directory.mkdir(parents=True, exist_ok=True)
        key, name = _key(), _name("penstock development authority")
        certificate = (
            _builder(name, name, key, valid)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(directory / KEY, _pem_of(key))
        _write(directory / CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
        return cls(directory, certificate, key)

    @classmethod
    def _read(cls, directory: Path) -> Self:
        certificate = x509.load_pem_x509_certificate((directory / CERTIFICATE).read_bytes())
        key = serialization.load_pem_private_key((directory / KEY).read_bytes(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{directory / KEY} is no key that penstock has made")
        return cls(directory, certificate, key)

    def server(self, names: Iterable[str], valid: timedelta, file: str = "server.pem") -> Path:
        """Make a certificate of a server for host names and addresses; return its file, which has the key too."""
        names = list(names)
        alternatives = [x509.IPAddress(ip_address(each)) if is_address(each) else x509.DNSName(each) for each in names]
        return self._issue(file, names[0], alternatives, ExtendedKeyUsageOID.SERVER_AUTH, valid)

    def client(self, user: str, valid: timedelta, file: str = "") -> Path:
        """Make a certificate of a client for a user; return its file, which has the key too."""
        return self._issue(file or f"client-{user}.pem", user, [], ExtendedKeyUsageOID.CLIENT_AUTH, valid)

    def _issue(
        self, file: str, subject: str, alternatives: Sequence[x509.GeneralName], use: x509.ObjectIdentifier,
        valid: timedelta,
    ) -> Path:  # fmt: skip
        key = _key()
        builder = (
            _builder(_name(subject), self.certificate.subject, key, valid)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
        )  # fmt: skip
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        path = self.directory / file
        _write(path, certificate.public_bytes(serialization.Encoding.PEM) + _pem_of(key))
        return path


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, valid: timedelta
) -> x509.CertificateBuilder:
    began = now() - BACKDATED
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(began, began + valid))
        .not_valid_after(began + BACKDATED + valid)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=signs, crl_sign=signs, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, contents: bytes, mode: int = PRIVATE) -> None:
    """Write a file in one step: a listener may read it at any time."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:
        file.write(contents)
    unfinished.replace(path)
