"""An authority for tests, and what it issues."""

from __future__ import annotations

import ssl
from datetime import timedelta
from pathlib import Path

import pytest

from ops.tls.authority import Authority
from penstock.tls.certificates import now, read_certificate

DAY = timedelta(days=1)


def test_keys_are_private_and_the_authority_is_kept(tmp_path: Path) -> None:
    directory = tmp_path / "certificates"
    first = Authority.at(directory, DAY)
    made = [first.server(["localhost", "::1"], DAY), first.client("ann", DAY)]
    for path in (*made, directory / "authority.key"):
        assert path.stat().st_mode & 0o777 == 0o600
    assert Authority.at(directory, DAY).certificate == first.certificate
    assert read_certificate(made[0]).names == ("localhost", "::1")
    assert read_certificate(made[1]).subject == "CN=ann"
    assert read_certificate(made[0]).issuer == read_certificate(directory / "authority.pem").subject
    assert 0 < read_certificate(made[0]).seconds_left(now()) <= DAY.total_seconds()
    assert not [*directory.glob("*.new")]


def test_openssl_takes_the_chain(tmp_path: Path) -> None:
    authority = Authority.at(tmp_path, DAY)
    context = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
    context.load_cert_chain(authority.client("ann", DAY))
    context.load_cert_chain(authority.server(["a"], DAY))


def test_a_directory_with_an_authority_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "authority.pem").write_bytes(b"somebody's")
    with pytest.raises(ValueError, match="PEM"):
        Authority.at(tmp_path, DAY)
    assert [path.name for path in tmp_path.iterdir()] == ["authority.pem"]
