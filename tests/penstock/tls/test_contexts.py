"""The contexts of a listener, made from its files."""

from __future__ import annotations

from pathlib import Path

from penstock.tls.contexts import choose, inner_contexts, outer_context
from penstock.tls.errors import TlsError
from tests import certificates


def complaint(**changes: object) -> str:
    """Return why a listener cannot serve; "" if it can."""
    try:
        settings = certificates.settings(**changes)
        outer_context(settings)
        inner_contexts(settings)
    except TlsError as error:
        return str(error)
    return ""


def test_a_client_gets_the_certificate_for_the_host_that_it_names() -> None:
    files = certificates.server("localhost"), certificates.server("*.example.org"), certificates.server("a.example.org")
    inners = inner_contexts(certificates.settings(certificates=files))

    def chosen(name: str | None) -> Path:
        return choose(inners, name).certificate.path

    assert [chosen("localhost"), chosen("b.example.org"), chosen("a.example.org")] == [files[0], files[1], files[1]]
    assert chosen("unknown.net") == chosen("") == chosen(None) == files[0]


def test_a_key_may_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    certificate, _, key = certificates.server().read_bytes().partition(b"-----BEGIN PRIVATE KEY-----")
    (tmp_path / "server.crt").write_bytes(certificate)
    (tmp_path / "server.key").write_bytes(b"-----BEGIN PRIVATE KEY-----" + key)
    assert not complaint(certificates=str(tmp_path / "server.crt"), keys=str(tmp_path / "server.key"))
    assert "PEM lib" in complaint(certificates=str(tmp_path / "server.crt"))


def test_what_is_wrong_is_named_with_its_file(tmp_path: Path) -> None:
    other = certificates.server("other")
    assert f"with key {other}: KEY_VALUES_MISMATCH" in complaint(keys=[other])
    assert "No such file" in complaint(keys=[tmp_path / "missing.key"])
    assert complaint(ciphers="NONE-SUCH").startswith("ciphers 'NONE-SUCH': ")
    wanted = {"client_certificates": "optional", "client_authorities": tmp_path / "authorities.pem"}
    assert "authorities.pem: No such file" in complaint(**wanted)
    (tmp_path / "authorities.pem").write_text("nothing")
    assert "authorities.pem: NO_CERTIFICATE_OR_CRL_FOUND" in complaint(**wanted)


def test_a_key_with_a_password_is_refused_without_asking(tmp_path: Path) -> None:
    path = tmp_path / "server.pem"
    path.write_bytes(certificates.server().read_bytes().partition(b"-----BEGIN PRIVATE")[0] + certificates.locked_key())
    assert complaint(certificates=[path]) == f"key {path}: it is encrypted; penstock asks for no password"
