"""Sessions over HTTP on a real node: begun, used, ended, and refused to other sites and to users without tags."""

from __future__ import annotations

from uuid import uuid4

import pytest

from penstock.control import passwords
from tests.console.http.node import GUEST, HttpBroker

pytestmark = pytest.mark.broker

LOGIN = dict(zip(("username", "password"), GUEST, strict=True))


def begin(node: HttpBroker) -> str:
    """Return the cookie of a new session."""
    answer = node.request("POST", "/api/session", LOGIN, user=None)
    assert answer.status == 200 and answer.json == {"name": "guest", "tags": ["administrator"]}
    return answer.headers["set-cookie"].partition(";")[0]


def test_a_session_lasts_until_its_user_logs_out(node: HttpBroker) -> None:
    cookie, other = begin(node), begin(node)
    assert node.get("/api/whoami", user=None, headers={"cookie": cookie}).json["name"] == "guest"
    assert node.request("DELETE", "/api/session", user=None, headers={"cookie": cookie}).status == 204
    assert node.get("/api/whoami", user=None, headers={"cookie": cookie}).status == 401
    assert node.get("/api/whoami", user=None, headers={"cookie": other}).status == 200


def test_pages_of_other_sites_change_nothing(node: HttpBroker) -> None:
    given = {"cookie": begin(node), "sec-fetch-site": "cross-site"}
    assert node.request("DELETE", "/api/session", user=None, headers=given).status == 403
    assert node.request("POST", "/api/session", LOGIN, user=None, headers=given).status == 403
    assert node.request("DELETE", "/api/session", headers={"origin": "http://elsewhere"}).status == 403
    assert node.get("/api/whoami", user=None, headers=given).status == 200


def test_browsers_ask_for_a_password_only_where_no_page_does(node: HttpBroker) -> None:
    wrong = {"username": "guest", "password": "wrong"}
    fetched = {"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
    answers = [
        node.request("POST", "/api/session", wrong, user=None, headers=fetched),
        node.get("/api/whoami", user=None, headers=fetched),
        node.get("/api/whoami", user=("guest", "wrong"), headers=fetched),
        node.get("/api/whoami", user=None),
    ]
    assert [each.status for each in answers] == [401] * 4
    assert ["www-authenticate" in each.headers for each in answers] == [False, False, False, True]


def test_a_user_without_tags_is_not_let_in(node: HttpBroker) -> None:
    user = f"u-{uuid4().hex[:8]}"
    node.call("user_add", name=user, password_hash=passwords.hashed("secret"), tags=[])
    assert node.get("/api/whoami", user=(user, "secret")).json["reason"] == "Not management user"
    login = {"username": user, "password": "secret"}
    refused = node.request("POST", "/api/session", login, user=None)
    assert refused.status == 401 and "set-cookie" not in refused.headers
