"""The settings of authentication."""

from __future__ import annotations

import pytest

from penstock.settings.auth import AuthSettings
from penstock.settings.errors import SettingsError
from penstock.settings.sources import load_settings

PATHS = [f"auth.http.{name}_path=https://auth.example/{name}" for name in ("user", "vhost", "resource", "topic")]


def auth(*assignments: str) -> AuthSettings:
    return load_settings(assignments=assignments).auth


def test_the_nodes_own_users_alone_log_in_by_default() -> None:
    assert auth().backends == ("internal",)


def test_backends_are_asked_in_their_order() -> None:
    id = "auth.oauth2.resource_server_id=penstock"
    found = auth("auth.backends=oauth2, http,internal", id, "auth.oauth2.jwks_uri=https://i.example/keys", *PATHS)
    assert found.backends == ("oauth2", "http", "internal")
    assert found.oauth2.prefix == "penstock." and found.http.user_path == "https://auth.example/user"
    assert auth("auth.oauth2.scope_prefix=").oauth2.prefix == ""


@pytest.mark.parametrize(
    "url", ["https://i.example/a?b=c", "http://127.0.0.1:1/keys", "http://[::1]/", "http://localhost/"]
)
def test_keys_may_come_over_tls_or_from_this_machine(url: str) -> None:
    assert auth(f"auth.oauth2.issuer={url}").oauth2.issuer == url


@pytest.mark.parametrize(
    ("assignments", "complaint"),
    [
        (["auth.backends="], "at least one"),
        (["auth.backends=internal,internal"], "each once"),
        (["auth.backends=ldap"], "'internal', 'oauth2' or 'http'"),
        (["auth.backends=oauth2"], "resource_server_id"),
        (["auth.backends=oauth2", "auth.oauth2.resource_server_id=x"], "issuer, jwks_uri or keys"),
        (["auth.backends=http"], "user_path"),
        (PATHS[:2], "needs user_path"),
        (["auth.oauth2.issuer=http://i.example/"], "https://"),
        (["auth.oauth2.issuer=http://localhost.example/"], "https://"),
        (["auth.oauth2.jwks_uri=ftp://i.example/"], "no URL"),
        (["auth.oauth2.jwks_uri=https://u:p@i.example/"], "password"),
        (["auth.http.user_path=https://[x"], "no URL"),
        (["auth.http.user_path=https:///x"], "no URL"),
        (["auth.http.http_method=put"], "http_method"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_meant_are_refused(assignments: list[str], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        auth(*assignments)
