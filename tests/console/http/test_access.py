"""Logins in requests: what counts as one, whose pages may send it, and the cookie that a browser gets."""

from __future__ import annotations

import base64

import pytest
from starlette.requests import Request
from starlette.responses import Response

from console.http.access import COOKIE, SECURE_COOKIE, _basic, is_own, set_cookie, token_of


def request(scheme: str = "http", **headers: str) -> Request:
    given = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request(
        {
            "type": "http",
            "method": "POST",
            "scheme": scheme,
            "path": "/",
            "server": ("x", 1),
            "headers": given,
            "query_string": b"",
        }
    )


def encoded(credentials: bytes) -> str:
    return base64.b64encode(credentials).decode()


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("Basic " + encoded(b"ann:secret"), ("ann", "secret")),
        ("basic  " + encoded(b"ann:a:b:"), ("ann", "a:b:")),
        ("BASIC " + encoded("änn:ß".encode()), ("änn", "ß")),
        ("Basic " + encoded(b"a:\xff"), ("a", "\udcff")),
        ("Basic " + encoded(b":"), ("", "")),
        ("Basic " + encoded(b"ann"), None),
        ("Basic", None),
        ("Basic ===", None),
        ("Basic a:b", None),
        ("Basic ünï", None),
        ("Bearer " + encoded(b"ann:secret"), None),
        ("", None),
    ],
)
def test_a_user_and_a_password_are_read(header: str, found: tuple[str, str] | None) -> None:
    assert _basic(request(authorization=header)) == found


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({}, True),
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "none"}, True),
        ({"sec_fetch_site": "same-site"}, False),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"sec_fetch_site": "cross-site", "origin": "http://here:1", "host": "here:1"}, False),
        ({"origin": "http://here:1", "host": "here:1"}, True),
        ({"origin": "http://here:2", "host": "here:1"}, False),
        ({"origin": "http://there", "host": "here"}, False),
        ({"origin": "null", "host": "here"}, False),
        ({"origin": "http://[", "host": "here"}, False),
        ({"origin": ""}, False),
    ],
)
def test_other_sites_are_told_apart(headers: dict[str, str], own: bool) -> None:
    assert is_own(request(**headers)) is own


@pytest.mark.parametrize(("scheme", "name"), [("http", COOKIE), ("https", SECURE_COOKIE)])
def test_the_cookie_is_for_this_host_and_no_script(scheme: str, name: str) -> None:
    response = Response()
    set_cookie(request(scheme), response, "token")
    header = response.headers["set-cookie"]
    assert header.startswith(f"{name}=token; ")
    parts = {part.strip().lower() for part in header.split(";")}
    assert {"httponly", "samesite=strict", "path=/"} <= parts and not any(part.startswith("domain") for part in parts)
    assert ("secure" in parts) == (scheme == "https")
    assert token_of(request(scheme, cookie=f"{COOKIE}=plain; {SECURE_COOKIE}=secure")) == (
        "secure" if scheme == "https" else "plain"
    )
    set_cookie(request(scheme), response, "")
    assert "max-age=0" in response.headers.getlist("set-cookie")[-1].lower()


def test_a_request_without_a_cookie_has_no_token() -> None:
    assert token_of(request()) == token_of(request(cookie="penstock")) == token_of(request(cookie=";;=;")) == ""
