"""The HTTP API declares and deletes, with the status codes and reasons of RabbitMQ 3.10."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from pika.exceptions import ChannelClosedByBroker

from console.api.properties_key import properties_key
from penstock.files.record_file import read_records, records_path
from router.model.records import Binding
from tests.console.api.calls import LIMITED, Answer, Served, path

pytestmark = pytest.mark.broker


def reason(answer: Answer) -> Any:
    return answer.body["reason"]


def rabbitmqadmin(node: Served, *arguments: str) -> str:
    done = subprocess.run(
        ["rabbitmqadmin", "-P", str(node.port), *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    return (done.stdout + done.stderr).strip()


def test_a_queue_is_declared_once_and_deleted(node: Served) -> None:
    api, q = node.api, path("queues", "a queue/with ümläuts")
    given = {"durable": True, "arguments": {"x-max-length": 5, "x-overflow": "reject-publish"}, "node": "ignored"}
    assert api("PUT", q, given).status == 201
    assert api("PUT", q, given).status == 204
    other = api("PUT", q, {"durable": False})
    assert other.status == 400 and other.body["error"] == "bad_request"
    assert reason(other).startswith(
        "inequivalent arg 'durable' for queue 'a queue/with ümläuts' in vhost '/': received"
    )
    with node.channel() as channel:
        declared = channel.queue_declare("a queue/with ümläuts", durable=True, arguments=given["arguments"])
    assert declared.method.message_count == 0
    assert api("DELETE", q).status == 204
    assert api("DELETE", q).body == {"error": "Object Not Found", "reason": "Not Found"}


def test_a_queue_counts_towards_its_users_limit(node: Served) -> None:
    limited = node.api.of(LIMITED)
    node.broker.call("limits_set", scope="user", name=LIMITED, limits={"max-queues": 1})
    assert limited("PUT", path("queues", "mine.1"), {}).status == 201
    answer = limited("PUT", path("queues", "mine.2"), {})
    assert answer.status == 400 and "(1) is reached" in reason(answer)
    node.broker.call("limits_clear", scope="user", name=LIMITED, limit=None)
    assert limited("DELETE", path("queues", "mine.1")).status == 204


def test_queues_are_deleted_on_conditions_and_purged(node: Served) -> None:
    api, q = node.api, path("queues", "kept")
    with node.channel() as channel:
        channel.queue_declare("kept")
        channel.confirm_delivery()
        channel.basic_publish("", "kept", b"1")
        assert reason(api("DELETE", q + "?if-empty=true")) == "queue 'kept' in vhost '/' not empty"
        assert api("DELETE", q + "/contents").status == 204
        assert channel.queue_declare("kept", passive=True).method.message_count == 0
        channel.basic_consume("kept", lambda *_: None)
        assert reason(api("DELETE", q + "?if-unused=true")) == "queue 'kept' in vhost '/' in use"
        assert api("DELETE", q + "?if-empty=true").status == 204
    assert api("DELETE", q + "/contents").status == 404


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"durable": "maybe"}, ["not_boolean", "maybe"]),
        ({"arguments": "x"}, ["not_table", "arguments"]),
        ({"arguments": {"a": None}}, "null_not_allowed"),
        ({"arguments": {"a": 2**63}}, "9223372036854775808 does not fit into 64 bits"),
        ([], "not_json"),
        ({"arguments": {"x-max-length": "five"}}, "invalid arg 'x-max-length' for queue 'bad' in vhost '/'"),
    ],
)
def test_nonsense_is_refused(node: Served, body: Any, expected: Any) -> None:
    answer = node.api("PUT", path("queues", "bad"), body)
    assert answer.status == 400
    assert reason(answer) == expected or reason(answer).startswith(expected)


def test_tables_too_deep_and_names_too_long_are_refused(node: Served) -> None:
    for levels in (80, 900):
        deep: Any = {}
        for _ in range(levels):
            deep = {"a": deep}
        assert node.api("PUT", path("queues", "bad"), {"arguments": deep}).status == 400
    assert "more than 255" in reason(node.api("PUT", path("queues", "x" * 256), {}))


def test_actions_are_for_administrators(node: Served) -> None:
    api, q = node.api, path("queues", "acted", "actions")
    assert api("POST", q, {"action": "sync"}).status == 404
    api("PUT", path("queues", "acted"), {})
    assert api("POST", q, {"action": "sync"}).status == 204
    assert reason(api("POST", q, {"action": "dance"})) == ["unknown", "dance"]
    assert reason(api("POST", q, {})) == "[{key_missing,action}]"
    assert api.of(LIMITED)("POST", q, {"action": "sync"}).status == 401
    api("DELETE", path("queues", "acted"))


def test_an_exchange_is_declared_once_and_deleted(node: Served) -> None:
    api, x = node.api, path("exchanges", "shop")
    assert api("PUT", x, {"type": "topic", "durable": True}).status == 201
    assert api("PUT", x, {"type": "topic", "durable": True}).status == 204
    assert "inequivalent arg 'type' for exchange 'shop'" in reason(api("PUT", x, {"durable": True}))
    assert reason(api("PUT", path("exchanges", "odd"), {"type": "odd"})) == "unknown exchange type 'odd'"
    assert api("PUT", path("exchanges", "amq.default"), {}).status == 401
    api("PUT", path("queues", "q"), {})
    api("POST", path("bindings", "e", "shop", "q", "q"), {})
    assert reason(api("DELETE", x + "?if-unused=true")) == "exchange 'shop' in vhost '/' in use"
    assert api("DELETE", x).status == 204
    assert api("DELETE", x).status == 404
    api("DELETE", path("queues", "q"))


@pytest.mark.parametrize(
    ("key", "arguments", "named"),
    [
        ("order.*", {}, "order.%2A"),
        ("", {}, "~"),
        ("a b/c~d%é", {}, "a+b%2Fc%7Ed%25%C3%A9"),
        ("k", {"x-match": "any", "n": 1}, "k~"),
    ],
)
def test_a_binding_is_made_and_removed_by_its_key(node: Served, key: str, arguments: Any, named: str) -> None:
    api, between = node.api, path("bindings", "e", "amq.headers", "q", "bound")
    api("PUT", path("queues", "bound"), {})
    made = api("POST", between, {"routing_key": key, "arguments": arguments})
    assert made.status == 201
    location = made.headers["location"]
    assert location.startswith("bound/" + path("x", named).removeprefix("/x/%2F/"))
    assert api("DELETE", f"{between}/other").status == 404
    assert api("DELETE", f"{between}/{location.partition('/')[2]}").status == 204
    assert api("DELETE", f"{between}/{location.partition('/')[2]}").status == 404
    api("DELETE", path("queues", "bound"))


def test_a_binding_made_by_a_client_with_types_of_amqp_is_removed(node: Served) -> None:
    with node.channel() as channel:
        channel.queue_declare("typed")
        channel.queue_bind("typed", "amq.headers", "k", {"bytes": b"\xff\x00", "text": "x"})
    key = properties_key(Binding("/", "amq.headers", "queue", "typed", "k", {"bytes": b"\xff\x00", "text": "x"}))
    between = path("bindings", "e", "amq.headers", "q", "typed")
    assert node.api("DELETE", f"{between}/{key}").status == 204
    assert not [each for each in node.broker.call("binding_list", vhost="/") if each["destination"] == "typed"]
    node.api("DELETE", path("queues", "typed"))


def test_bindings_need_both_ends(node: Served) -> None:
    api = node.api
    for source, kind, destination, status, words in (
        ("none", "q", "q", 404, "no exchange 'none' in vhost '/'"),
        ("amq.topic", "q", "none", 404, "no queue 'none' in vhost '/'"),
        ("amq.topic", "e", "none", 404, "no exchange 'none' in vhost '/'"),
        ("amq.topic", "z", "none", 404, "Not Found"),
        ("amq.default", "q", "none", 401, "operation not permitted on the default exchange"),
    ):
        answer = api("POST", path("bindings", "e", source, kind, destination), {})
        assert answer.status == status and words in reason(answer)
    assert api("DELETE", path("bindings", "e", "amq.default", "q", "q", "q")).status == 401
    assert api("POST", path("bindings", "e", "amq.topic", "e", "amq.fanout"), {}).status == 201
    assert api("DELETE", path("bindings", "e", "amq.topic", "e", "amq.fanout", "~")).status == 204


def test_a_user_needs_the_rights_of_a_client(node: Served) -> None:
    api, limited = node.api, node.api.of(LIMITED)
    api("PUT", path("queues", "theirs"), {})
    assert limited("PUT", path("queues", "mine.q"), {}).status == 201
    assert limited("PUT", path("exchanges", "mine.x"), {"type": "topic"}).status == 201
    dead_lettering = {"arguments": {"x-dead-letter-exchange": "amq.direct"}}
    for method, where, body in (
        ("PUT", path("queues", "q"), {}),
        ("PUT", path("queues", "mine.d"), dead_lettering),
        ("DELETE", path("queues", "theirs"), None),
        ("DELETE", path("queues", "theirs", "contents"), None),
        ("PUT", path("exchanges", "x"), {}),
        ("DELETE", path("exchanges", "amq.topic"), None),
        ("POST", path("bindings", "e", "amq.topic", "q", "mine.q"), {}),
        ("POST", path("bindings", "e", "mine.x", "q", "theirs"), {}),
    ):
        answer = limited(method, where, body)
        assert answer.status == 401 and answer.body["error"] == "not_authorised", (method, where)
        assert reason(answer).startswith("ACCESS_REFUSED - ")
    assert limited("POST", path("bindings", "e", "mine.x", "q", "mine.q"), {}).status == 201
    for name in ("mine.q", "theirs"):
        assert api("DELETE", path("queues", name)).status == 204
    assert limited("DELETE", path("exchanges", "mine.x")).status == 204


def test_only_users_of_the_vhost_may_act_there(node: Served) -> None:
    node.broker.call("vhost_add", name="other")
    assert node.api.of(LIMITED)("PUT", "/queues/other/mine.q", {}).status == 401
    assert node.api("PUT", "/queues/other/q", {}).status == 401  # an administrator without permissions there
    assert node.api("PUT", "/queues/none/q", {}).status == 404


def test_an_exclusive_queue_is_locked(node: Served) -> None:
    with node.channel() as channel:
        channel.queue_declare("private", exclusive=True)
        answer = node.api("DELETE", path("queues", "private"))
        assert answer.status == 400 and "exclusive access to locked queue 'private'" in reason(answer)
        with pytest.raises(ChannelClosedByBroker):
            channel.queue_declare("none", passive=True)


def test_changes_are_audited_with_the_user(node: Served) -> None:
    node.api("PUT", path("queues", "audited"), {})
    node.api("DELETE", path("queues", "audited"))
    records = read_records(records_path(node.broker.directory / "data", "audit", "console", 0))
    mine = [each for each in records if "audited" in str(each["arguments"])]
    assert [each["command"] for each in mine] == ["queue_declare", "queue_delete"]
    assert all(each["who"] == {"http_user": "guest"} and each["outcome"] == "done" for each in mine)


def test_rabbitmqadmin_declares_and_deletes(node: Served) -> None:
    for arguments, said in (
        (("declare", "queue", "name=orders", "durable=true", 'arguments={"x-max-length":9}'), "queue declared"),
        (("declare", "queue", "name=orders", "durable=false"), "*** inequivalent arg 'durable' for queue 'orders'"),
        (("declare", "exchange", "name=inner", "type=fanout", "internal=true"), "exchange declared"),
        (("declare", "binding", "source=amq.topic", "destination=orders", "routing_key=o.*"), "binding declared"),
        (
            ("declare", "binding", "source=amq.topic", "destination=inner", "destination_type=exchange"),
            "binding declared",
        ),
        (("purge", "queue", "name=orders"), "queue purged"),
        (
            (
                "delete", "binding", "source=amq.topic", "destination=orders", "destination_type=queue",
                "properties_key=o.*",
            ),
            "binding deleted",
        ),
        (("delete", "queue", "name=orders"), "queue deleted"),
        (("delete", "exchange", "name=inner"), "exchange deleted"),
        (("delete", "exchange", "name=inner"), "*** Not found"),
    ):  # fmt: skip
        assert rabbitmqadmin(node, *arguments).startswith(said), arguments
