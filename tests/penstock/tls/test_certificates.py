"""The facts of certificates."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from penstock.settings.listeners import LoginFrom
from penstock.tls.certificates import Certificate, now, read_certificate, subject_of, user_of
from penstock.tls.errors import TlsError
from tests import certificates

LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)


def named(*names: str) -> Certificate:
    """Return the facts of a certificate for names."""
    return read_certificate(certificates.server(*names))


def der(path: Path) -> bytes:
    """Return the certificate of a file as a peer sends it."""
    return x509.load_pem_x509_certificate(path.read_bytes()).public_bytes(Encoding.DER)


def test_a_certificate_says_for_whom_it_is_and_how_long() -> None:
    found = named("localhost", "127.0.0.1")
    assert found.names == ("localhost", "127.0.0.1")
    assert found.subject == "CN=localhost" and found.issuer == "CN=penstock development authority"
    left = found.seconds_left(now())
    assert certificates.YEAR - timedelta(hours=1) < timedelta(seconds=left) <= certificates.YEAR
    assert found.seconds_left(found.not_after + timedelta(seconds=5)) == -5


@pytest.mark.parametrize(
    ("host", "is_for"),
    [
        ("a.example.org", True), ("A.Example.ORG.", True), ("example.org", False), ("a.b.example.org", False),
        ("localhost", True), ("*.example.org", True), ("127.0.0.1", True), ("127.0.0.2", False), ("", False),
        (".example.org", False),
    ],
)  # fmt: skip
def test_a_star_stands_for_one_label(host: str, is_for: bool) -> None:
    assert named("*.example.org", "localhost", "127.0.0.1").is_for(host) is is_for


@given(LABEL, st.lists(LABEL, min_size=1, max_size=4))
def test_what_a_star_stands_for_has_no_dot(first: str, rest: list[str]) -> None:
    found = named("*.example.org")
    assert found.is_for(f"{first}.example.org")
    assert not found.is_for(".".join([first, *rest, "example.org"]))


@pytest.mark.parametrize(
    "contents", [b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_file_without_a_certificate_is_named(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "server.pem"
    path.write_bytes(contents)
    with pytest.raises(TlsError, match=r"^certificate .*server\.pem: [^\n]+$"):
        read_certificate(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TlsError, match=r"missing\.pem: No such file or directory$"):
        read_certificate(tmp_path / "missing.pem")


@pytest.mark.parametrize(
    ("part", "user"),
    [
        (LoginFrom.COMMON_NAME, "ann"), (LoginFrom.DISTINGUISHED_NAME, "OU=press,CN=ann"),
        (LoginFrom.DNS, "ann.example.org"), (LoginFrom.EMAIL, "ann@example.org"), (LoginFrom.URI, "spiffe://example.org/ann"),
    ],
)  # fmt: skip
def test_each_part_of_a_client_s_certificate_may_name_the_user(part: LoginFrom, user: str) -> None:
    assert user_of(certificates.detailed_client(), part) == user


def test_a_part_that_is_not_there_names_nobody() -> None:
    sent = der(certificates.client("guest"))
    assert user_of(sent, LoginFrom.COMMON_NAME) == "guest"
    assert [user_of(sent, part) for part in (LoginFrom.DNS, LoginFrom.EMAIL, LoginFrom.URI)] == [None] * 3


@given(st.binary(max_size=300))
def test_bytes_that_are_no_certificate_name_nobody(data: bytes) -> None:
    assert subject_of(data) == ""
    with pytest.raises(TlsError):
        user_of(data, LoginFrom.COMMON_NAME)
