"""The settings of further listeners."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.settings.errors import SettingsError
from penstock.settings.listeners import LISTENERS_MOST, TLS_PORT, ClientCertificates
from penstock.settings.sources import load_settings


def complaint(*assignments: str) -> str:
    """Return why settings are refused. AssertionError if they are not."""
    with pytest.raises(SettingsError) as refused:
        load_settings(assignments=assignments)
    return str(refused.value)


def test_a_listener_without_certificates_is_plain() -> None:
    plain = load_settings(assignments=["listeners.inner.host=::1", "listeners.inner.port=5673"]).listeners["inner"]
    assert (plain.host, plain.port, plain.is_tls, plain.pairs) == ("::1", 5673, False, [])


def test_the_plain_listener_may_be_off_where_there_is_another() -> None:
    assert load_settings().plain
    assert not load_settings(assignments=["plain=false", "listeners.inner.port=5673"]).plain
    assert complaint("plain=false") == "plain is off, and there are no listeners: nothing would be served"


def test_a_listener_without_tls_and_proxies_is_for_clients_of_this_machine() -> None:
    given = ["listeners.inner.port=1", "listeners.proxied.proxy_protocol=10.0.0.1", "listeners.tls.certificates=/a.pem"]
    found = load_settings(assignments=given).listeners
    assert [name for name, each in found.items() if each.is_local] == ["inner"]


def test_certificates_and_keys_are_paths_separated_by_commas() -> None:
    public = load_settings(
        assignments=["listeners.public.certificates=/a.pem, /b.pem", "listeners.public.keys=/a.key,/b.key"]
    ).listeners["public"]
    assert public.is_tls and public.port == TLS_PORT
    assert public.pairs == [(Path("/a.pem"), Path("/a.key")), (Path("/b.pem"), Path("/b.key"))]
    assert public.client_certificates is ClientCertificates.NONE


def test_without_keys_each_is_in_its_certificate_s_file() -> None:
    public = load_settings(assignments=["listeners.public.certificates=/a.pem"]).listeners["public"]
    assert public.pairs == [(Path("/a.pem"), Path("/a.pem"))]


@pytest.mark.parametrize(
    ("assignments", "reason"),
    [
        (["certificates=/a.pem,/b.pem", "keys=/a.key"], "there are 2 certificates and 1 keys"),
        (["client_certificates=required", "client_authorities=/ca.pem"], "a listener without them has no TLS"),
        (["certificates=/a.pem", "client_certificates=optional"], "client_certificates needs client_authorities"),
        (["certificates=/a.pem", "client_authorities=/ca.pem"], "client_authorities needs client_certificates"),
        (["client_certificates=perhaps"], "'none', 'optional' or 'required'"),
        (["tls_version=1.1"], "'1.2' or '1.3'"),
        (["port=65536"], "less than or equal to 65535"),
    ],
)
def test_what_does_not_fit_together_is_refused(assignments: list[str], reason: str) -> None:
    found = complaint(*(f"listeners.public.{each}" for each in assignments))
    assert reason in found and "listeners.public" in found


def test_unknown_settings_names_and_too_many_are_refused() -> None:
    assert "did you mean 'listeners.public.certificates'?" in complaint("listeners.public.certificate=/a.pem")
    assert "a name has 1 to 64 letters, digits, hyphens and underscores" in complaint("listeners.a b.port=1")
    assert str(LISTENERS_MOST) in complaint(*(f"listeners.n{number}.port=0" for number in range(LISTENERS_MOST + 1)))
