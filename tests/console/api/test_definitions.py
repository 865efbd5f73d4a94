"""Definitions: exported, and imported again."""

from __future__ import annotations

import pytest

from tests.console.api.conftest import Connect
from tests.management import Api

pytestmark = pytest.mark.broker


def test_a_vhost_is_restored_from_the_definitions_of_the_node(api: Api, vhost: str, connect: Connect) -> None:
    connection = connect()
    channel = connection.channel()
    channel.queue_declare("q", durable=True, arguments={"x-own": "mine"})
    channel.exchange_declare("x", "topic", durable=True)
    channel.queue_bind("q", "x", "a.#")
    connection.close()
    api.put(f"policies/{vhost}/p", {"pattern": "^q", "definition": {"max-length": 5}})
    document, of_vhost = api.get("definitions"), api.get(f"definitions/{vhost}")
    assert set(of_vhost) == {"rabbit_version", "parameters", "policies", "queues", "exchanges", "bindings"}
    assert api.status("DELETE", f"vhosts/{vhost}") == 204
    assert api.status("POST", "definitions", document) == 204
    assert api.get("definitions") == document and api.get(f"definitions/{vhost}") == of_vhost
    assert api.get(f"queues/{vhost}/q")["arguments"] == {"x-own": "mine"}


def test_definitions_go_into_one_vhost(api: Api, vhost: str) -> None:
    queue = {"name": "q", "vhost": "elsewhere", "durable": True, "auto_delete": False, "arguments": {}}
    assert api.status("POST", f"definitions/{vhost}", {"queues": [queue]}) == 204
    assert [each["name"] for each in api.get(f"queues/{vhost}")] == ["q"]
    assert api.status("POST", "definitions/nowhere", {}) == 404


@pytest.mark.parametrize("name", ['a"b.json', "a%0Cb.json", "a%0D%0Ab.json", "a%C3%A9b.json", "a%00b.json", "ab.json"])
def test_a_file_of_definitions_has_a_name_fit_for_a_header(api: Api, name: str) -> None:
    answer = api.call("GET", f"definitions?download={name}")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="ab.json"'


@pytest.mark.parametrize("document", [[], "text", {"queues": 5}, {"queues": [{"name": "q", "vhost": "nowhere"}]}])
def test_definitions_that_are_none_are_refused_with_a_reason(api: Api, document: object) -> None:
    answer = api.call("POST", "definitions", document)
    assert answer.status_code == 400 and answer.json()["reason"]


def test_only_administrators_see_definitions(api: Api, vhost: str) -> None:
    api.make_user("maker", "policymaker", vhost)
    assert [api.status("GET", path, user="maker") for path in ("definitions", f"definitions/{vhost}")] == [401, 401]
    assert api.status("POST", f"definitions/{vhost}", {}, "maker") == 401
