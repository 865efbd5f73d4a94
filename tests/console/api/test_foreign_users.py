"""Users that are not the node's own act over HTTP with the rights that their tokens, or a service, give them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptor.logins import issuer as issuing
from tests.acceptor.logins import service as deciding
from tests.acceptor.logins.issuer import Issuer
from tests.acceptor.logins.service import Fields
from tests.console.http.node import Answer, HttpBroker

pytestmark = pytest.mark.broker

PLANTED = "planted-password-for-the-service"
SCOPES = (
    "penstock.configure:%2F/mine-* penstock.read:%2F/mine-* penstock.write:%2F/mine-* penstock.write:%2F/amq.default "
    "penstock.tag:management"
)
PROPERTIES: dict[str, Any] = {"user_id": "ann"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing.serving(Issuer()) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def node(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpBroker]:
    with HttpBroker(tmp_path_factory.mktemp("tokens"), *issuer.assignments()) as node:
        assert node.penstock("vhost", "add", "other").returncode == 0
        yield node


def published(node: HttpBroker, key: str, **how: Any) -> Answer:
    message = {"routing_key": key, "payload": "x", "payload_encoding": "string", "properties": PROPERTIES}
    return node.request("POST", "/api/exchanges/%2F/amq.default/publish", message, **how)


def got(node: HttpBroker, queue: str, **how: Any) -> Answer:
    wanted = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    return node.request("POST", f"/api/queues/%2F/{queue}/get", wanted, **how)


def test_a_token_acts_within_its_scopes(node: HttpBroker, issuer: Issuer) -> None:
    ann = ("anyone", issuer.token(sub="ann", scope=SCOPES))
    assert node.get("/api/whoami", user=ann).json == {"name": "ann", "tags": ["management"], "is_internal_user": False}
    assert node.request("PUT", "/api/queues/%2F/mine-1", {}, user=ann).status == 201
    assert published(node, "mine-1", user=ann).json == {"routed": True}
    assert got(node, "mine-1", user=ann).json[0]["payload"] == "x"
    refused = node.request("PUT", "/api/queues/%2F/yours", {}, user=ann)
    assert refused.status == 401 and "refused for user 'ann'" in refused.json["reason"]
    assert node.request("PUT", "/api/queues/other/mine-1", {}, user=ann).status == 401
    assert node.request("PUT", "/api/queues/nowhere/mine-1", {}, user=ann).status == 404
    assert node.request("DELETE", "/api/queues/%2F/mine-1", user=ann).status == 204
    audit = "".join(path.read_text() for path in (node.directory / "data" / "audit").iterdir())
    assert '"http_user":"ann"' in audit and ann[1] not in audit and ann[1] not in node.log


def test_a_session_acts_likewise(node: HttpBroker, issuer: Issuer) -> None:
    token = issuer.token(sub="ann", scope=SCOPES)
    begun = node.request("POST", "/api/session", {"username": "x", "password": token}, user=None)
    cookie = {"cookie": begun.headers["set-cookie"].partition(";")[0]}
    assert node.request("PUT", "/api/queues/%2F/mine-2", {}, user=None, headers=cookie).status == 201
    assert published(node, "mine-2", user=None, headers=cookie).json == {"routed": True}
    assert node.request("PUT", "/api/queues/%2F/yours", {}, user=None, headers=cookie).status == 401
    assert node.request("DELETE", "/api/queues/%2F/mine-2", user=None, headers=cookie).status == 204


def test_a_service_is_asked(tmp_path: Path) -> None:
    def decide(path: str, fields: Fields) -> str:
        if path == "/user":
            return "allow management" if fields["password"] == PLANTED else "deny"
        return "deny" if fields.get("name") == "yours" else "allow"

    with deciding.serving() as service:
        service.decide = decide
        ann = {"user": ("ann", PLANTED)}
        with HttpBroker(tmp_path, *service.assignments()) as node:
            assert node.request("PUT", "/api/queues/%2F/mine", {}, **ann).status == 201
            assert published(node, "mine", **ann).json == {"routed": True}
            assert got(node, "mine", **ann).json[0]["properties"] == PROPERTIES
            assert node.request("PUT", "/api/queues/%2F/yours", {}, **ann).status == 401
            assert node.request("PUT", "/api/queues/%2F/mine", {}, user=("ann", "wrong")).status == 401
            assert PLANTED not in node.log
    resources = [fields for path, fields in service.asked if path == "/resource"]
    assert {"configure", "write", "read"} <= {fields["permission"] for fields in resources}
    assert PLANTED not in json.dumps(resources)
