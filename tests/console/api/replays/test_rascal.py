"""rascal's assertions of a vhost before it connects: asserted, checked, tested for life, deleted."""

from __future__ import annotations

import pytest

from tests.console.api.replays.conftest import connected
from tests.console.api.replays.program import Program
from tests.console.http.node import HttpBroker

pytestmark = pytest.mark.broker

HEADERS = {"content-type": "application/json", "connection": "close"}


@pytest.fixture(scope="module")
def rascal(node: HttpBroker) -> Program:
    return Program(node, HEADERS)


def test_a_vhost_is_asserted_and_used(node: HttpBroker, rascal: Program) -> None:
    rascal.gone("vhosts/rascal%2Fone")
    rascal.call("PUT", "vhosts/rascal%2Fone", b"", 201)
    rascal.call("PUT", "vhosts/rascal%2Fone", b"", 204)
    assert rascal.read("vhosts/rascal%2Fone")["name"] == "rascal/one"
    assert rascal.read("aliveness-test/rascal%2Fone") == {"status": "ok"}
    with connected(node, "rascal/one") as connection:
        connection.channel().queue_declare("q", durable=True)
    rascal.call("DELETE", "vhosts/rascal%2Fone", None, 204)
    rascal.gone("vhosts/rascal%2Fone")
    rascal.call("GET", "aliveness-test/rascal%2Fone", None, 404)


def test_a_vhost_that_is_only_checked_is_not_made(rascal: Program) -> None:
    rascal.gone("vhosts/missing")
    rascal.call("DELETE", "vhosts/missing", None, 404)
