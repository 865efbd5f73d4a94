"""Health checks."""

from __future__ import annotations

import pytest

from tests.console.api.conftest import Served
from tests.management import Api

pytestmark = pytest.mark.broker


def test_a_healthy_node_passes_its_checks(served: Served, vhost: str) -> None:
    api, port = served.api, served.broker.address.port
    for check in (
        "alarms", "local-alarms", "virtual-hosts", "node-is-quorum-critical", "node-is-mirror-sync-critical",
        f"port-listener/{port}", f"port-listener/{api.port}", "protocol-listener/amqp", "protocol-listener/AMQP0.9.1",
        "certificate-expiration/1/months",
    ):  # fmt: skip
        assert api.get(f"health/checks/{check}")["status"] == "ok", check
    assert api.get("healthchecks/node") == api.get(f"aliveness-test/{vhost}") == {"status": "ok"}


def test_a_check_that_fails_says_why(api: Api) -> None:
    answer = api.call("GET", "health/checks/port-listener/1")
    assert answer.status_code == 503 and answer.json()["missing"] == 1 and len(answer.json()["ports"]) == 2
    for protocol in ("mqtt", "amqp%2Fssl", "a/b"):
        answer = api.call("GET", f"health/checks/protocol-listener/{protocol}")
        assert answer.status_code == 503 and answer.json()["protocols"] == ["amqp", "http"]


@pytest.mark.parametrize(
    "check",
    [
        "port-listener/x",
        "port-listener/" + "9" * 99,
        "certificate-expiration/x/months",
        "certificate-expiration/1/eons",
    ],
)
def test_a_check_that_is_none_is_refused(api: Api, check: str) -> None:
    assert api.status("GET", f"health/checks/{check}") == 400


def test_the_aliveness_of_a_vhost_is_for_its_users(api: Api, vhost: str) -> None:
    api.make_user("ida", "management", vhost)
    assert api.status("GET", f"aliveness-test/{vhost}", user="ida") == 200
    assert api.status("GET", "aliveness-test/%2F", user="ida") == 401
    assert api.status("GET", "aliveness-test/nowhere") == 404
