"""The management API of a node and that of Debian's RabbitMQ, in the same state: their answers agree field by field.

Fields that only one of them has are in the table of docs/http-api.md, which is checked as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from tests.broker import Broker
from tests.differential import rabbitmq
from tests.differential.http_state import OUTSIDER, TAGS, administer, used
from tests.house import ROOT
from tests.management import Api
from tests.ports import free_port
from tests.raw import Address

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(600)]

DOCUMENT = ROOT / "docs" / "http-api.md"

NOT_ALWAYS = ("idle_since",)
"""Fields that RabbitMQ has only if it has found an object idle when it last counted."""

OBJECTS = {
    "overview": "overview",
    "nodes": "node",
    "queues": "queue of a list",
    "queues/shop": "queue of a list",
    "queues/shop/orders": "queue",
    "queues/shop/spare%2Fone": "queue",
    "queues/shop/mine": "queue",
    "queues/shop/orders/bindings": "binding",
    "exchanges/shop": "exchange",
    "exchanges/shop/orders.in": "exchange",
    "exchanges/shop/a%2Fb%20c": "exchange",
    "exchanges/shop/orders.in/bindings/source": "binding",
    "exchanges/shop/orders.other/bindings/destination": "binding",
    "bindings": "binding",
    "bindings/shop": "binding",
    "bindings/shop/e/orders.in/q/orders": "binding",
    "bindings/shop/e/orders.in/q/orders/order.%2A": "binding",
    "bindings/shop/e/orders.in/q/orders/order.%252A": "binding",
    "bindings/shop/e/orders.in/e/orders.other": "binding",
    "bindings/shop/e/orders.in/e/orders.other/audit.%2523": "binding",
    "bindings/shop/e//q/orders": "binding",
    "bindings/shop/e/a%2Fb%20c/q/spare%2Fone/~": "binding",
    "connections": "connection",
    "vhosts/shop/connections": "connection",
    "channels": "channel",
    "vhosts/shop/channels": "channel",
    "consumers": "consumer",
    "consumers/shop": "consumer",
    "vhosts": "vhost",
    "vhosts/shop": "vhost",
    "vhosts/shop/permissions": "permission",
    "vhosts/shop/topic-permissions": "permission",
    "users": "user",
    "users/manager": "user",
    "users/without-permissions": "user",
    "users/manager/permissions": "permission",
    "users/manager/topic-permissions": "permission",
    "permissions": "permission",
    "permissions/shop/manager": "permission",
    "topic-permissions": "permission",
    "topic-permissions/shop/manager": "permission",
    "policies": "policy",
    "policies/shop": "policy",
    "policies/shop/short": "policy",
    "operator-policies": "policy",
    "operator-policies/shop/cap": "policy",
    "vhost-limits": "limits",
    "vhost-limits/shop": "limits",
    "user-limits": "limits",
    "user-limits/manager": "limits",
    "parameters": "parameter",
    "parameters/vhost-limits/shop": "parameter",
    "parameters/operator_policy/shop/cap": "parameter",
    "parameters/shovel": "parameter",
    "definitions": "definitions",
    "definitions/shop": "definitions",
    "whoami": "whoami",
    "health/checks/alarms": "health",
    "health/checks/local-alarms": "health",
    "health/checks/virtual-hosts": "health",
    "health/checks/node-is-quorum-critical": "health",
    "health/checks/node-is-mirror-sync-critical": "health",
    "health/checks/protocol-listener/amqp091": "health",
    "health/checks/certificate-expiration/1/months": "health",
    "healthchecks/node": "health",
}
"""The requests that are compared, with the kinds of object that they answer."""

STATUSES = (
    "auth", "auth/attempts/x", "cluster-name", "extensions", "feature-flags", "global-parameters",
    "global-parameters/x", "nothing", "queues/nowhere", "queues/shop/nothing",
    "exchanges/nowhere", "exchanges/shop/nothing", "bindings/nowhere", "bindings/shop/e/nothing/q/orders",
    "bindings/shop/e/orders.in/q/orders/nothing", "connections/nothing",
    "channels/nothing", "consumers/nowhere", "vhosts/nowhere", "vhosts/nowhere/permissions", "users/nobody",
    "users/nobody/permissions", "permissions/shop/nobody", "permissions/nowhere/guest", "topic-permissions/shop/nobody",
    "policies/nowhere", "policies/shop/nothing", "operator-policies/shop/nothing", "parameters/shovel/shop/nothing",
    "vhost-limits/nowhere",  "health/checks/port-listener/1",
    "health/checks/protocol-listener/mqtt", "aliveness-test/nowhere", "queues?page=9", "queues?page=0", "queues?page=x",
    "queues?page=1&page_size=501", "queues?page=1&page_size=500", "queues?columns=name,messages",
    "queues?sort=messages&sort_reverse=true", "queues?page=1&name=ord", "queues?page=1&name=%5Eord&use_regex=true",
    "connections?page=1&page_size=1",
)  # fmt: skip
"""Requests whose status is compared."""

AS_A_WHOLE = (
    "arguments", "client_properties", "definition", "effective_policy_definition", "value", "limits", "cluster_state",
    "memory", "socket_opts",
)  # fmt: skip
"""Objects whose members are values of users, or are not compared."""

OTHERWISE = (
    "global", "basic", "detailed", "description",
    "node", "name@connection", "name@channel", "name@node", "host", "port", "peer_host", "peer_port",
    "connection_name", "connected_at", "cluster_name", "cluster_state", "erlang_version", "erlang_full_version",
    "product_name", "product_version", "rates_mode", "memory", "sample_retention_policies",
    "statistics_db_event_queue", "exchange_types", "listeners", "contexts", "rate", "password_hash",
    "hashing_algorithm", "properties_key@arguments", "os_pid", "fd_total", "fd_used", "sockets_total", "mem_limit",
    "mem_used", "disk_free_limit", "disk_free", "proc_total", "proc_used", "uptime", "auth_mechanisms",
    "applications", "log_files", "db_dir", "config_files", "net_ticktime", "enabled_plugins", "sockets_used",
    "exchanges", "user_who_performed_action", "default_queue_type", "rabbit_version", "users", "global_parameters",
    "frame_max", "channel_max", "policies", "parameters", "permissions", "topic_permissions", "vhosts", "queues",
    "bindings", "mem_calculation_strategy", "activity_status", "recv_cnt", "send_cnt", "send_oct", "connection_closed",
)  # fmt: skip
"""Fields whose values differ by nature, or are compared elsewhere."""


class Made(NamedTuple):
    """The APIs of RabbitMQ and of a node in the same state, and how each has answered the requests that made it."""

    apis: tuple[Api, Api]
    answers: list[list[tuple[str, int]]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    with ExitStack() as stack:
        directory = tmp_path_factory.mktemp("penstock")
        settings = ("http.port=0", "http.metrics=false")
        ours = stack.enter_context(Broker(directory, *settings, acceptors=2, shards=2))
        management = free_port()
        amqp = stack.enter_context(rabbitmq.serve(tmp_path_factory.mktemp("rabbitmq"), management))
        pair = Api(management), Api.of(directory)
        addresses: tuple[Address, Address] = amqp, ours.address
        answers = [administer(api) for api in pair]
        for api, address in zip(pair, addresses, strict=True):
            stack.enter_context(used(api, address))
        yield Made(pair, answers)


@pytest.fixture
def both(made: Made) -> tuple[Api, Api]:
    return made.apis


def test_changes_are_answered_with_the_same_statuses(made: Made) -> None:
    theirs, ours = made.answers
    assert ours == theirs


def test_answers_have_the_same_fields_and_values(both: tuple[Api, Api]) -> None:
    """Apart from the fields in the table, each of which makes a difference somewhere."""
    missing, further = table()
    for known in (missing, further):
        known["queue of a list"] = known["queue of a list"] + known["queue"]
    unused = {(kind, field) for known in (missing, further) for kind, fields in known.items() for field in fields}
    problems = []
    for path, kind in OBJECTS.items():
        theirs, ours = (of_both(api.get(path), kind) for api in both)
        if theirs.keys() != ours.keys():
            problems.append(f"{path}: objects {theirs.keys() ^ ours.keys()}")
        for name in theirs.keys() & ours.keys():
            for fields, others, known in ((theirs[name], ours[name], missing), (ours[name], theirs[name], further)):
                for field in fields.keys() - others.keys():
                    covered = [each for each in known[kind] if covers(each, field)]
                    unused -= {(kind, each) for each in covered}
                    if not covered and not is_zero_stat(field, fields):
                        problems.append(f"{path} {name}: only one has {field}")
            problems += [
                f"{path} {name}: {field} is {theirs[name][field]!r} and {ours[name][field]!r}"
                for field in theirs[name].keys() & ours[name].keys()
                if theirs[name][field] != ours[name][field] and not differs_by_nature(kind, field)
            ]
    assert not problems, "\n".join(problems)
    unused = {(kind, field) for kind, field in unused if kind != "queue of a list" and field not in NOT_ALWAYS}
    assert not unused, f"no difference any more: {unused}"


def table() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the fields that only RabbitMQ has, and that only penstock has, of each kind of object."""
    missing, further = {}, {}
    _, _, rows = DOCUMENT.read_text().partition(
        "| object | only RabbitMQ has | only penstock has |\n| --- | --- | --- |\n"
    )
    for row in rows.partition("\n\n")[0].splitlines():
        kind, only_theirs, only_ours = (cell.strip() for cell in row.strip().strip("|").split("|"))
        missing[kind], further[kind] = (re.findall("`([^`]+)`", cell) for cell in (only_theirs, only_ours))
    return missing, further


def of_both(answer: Any, kind: str) -> dict[str, dict[str, Any]]:
    """Return the objects of an answer by a name that both brokers give them, each as its fields by their paths."""
    rows = answer if isinstance(answer, list) else [answer]
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if kind == "exchange" and row["name"] == "amq.flow":
            continue
        found[name_of(row, kind)] = fields_of(row)
    return found


def name_of(row: dict[str, Any], kind: str) -> str:
    """Return a name of an object that does not depend on the broker."""
    if kind in ("node", "connection", "overview", "definitions"):
        return kind
    kind = kind.removesuffix(" of a list")
    names = (
        "vhost", "user", "name", "component", "exchange", "source", "destination", "routing_key", "arguments", "number",
        "consumer_tag",
    )  # fmt: skip
    return " ".join(f"{row[name]}" for name in names if name in row and not (kind == "channel" and name == "name"))


def fields_of(row: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Return the fields of an object by their paths."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict) and name not in AS_A_WHOLE:
            found |= fields_of(value, f"{above}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict) and name == "consumer_details":
            found |= fields_of(value[0], f"{above}{name}.")
        else:
            found[above + name] = value
    return found


def covers(known: str, field: str) -> bool:
    """Whether a name of the table stands for a field."""
    return field == known or field.startswith((f"{known}.", f"{known}_details."))


def is_zero_stat(field: str, fields: dict[str, Any]) -> bool:
    """Whether a field is one of the zeros that RabbitMQ leaves out where nothing was counted."""
    return field.startswith("message") and not fields[field]


def differs_by_nature(kind: str, field: str) -> bool:
    """Whether the values of a field may differ."""
    last = field.rpartition(".")[2]
    return (
        last in OTHERWISE
        or f"{last}@{kind}" in OTHERWISE
        or (last == "name" and "_details" in field)
        or (last == "properties_key" and kind == "binding")
    )


@pytest.mark.parametrize("path", STATUSES)
def test_a_request_has_the_same_status(both: tuple[Api, Api], path: str) -> None:
    theirs, ours = (api.call("GET", path) for api in both)
    assert ours.status_code == theirs.status_code, (theirs.text, ours.text)
    if theirs.status_code == 404:
        assert ours.json() == theirs.json()
    assert isinstance(ours.json(), type(theirs.json()))


SEEN = (
    "overview", "nodes", "queues", "queues/shop", "queues/%2F", "queues/shop/orders", "exchanges", "exchanges/shop",
    "bindings/shop", "connections", "channels", "consumers", "vhosts", "vhosts/shop/permissions",
    "users", "users/guest", "permissions", "topic-permissions", "policies", "policies/shop", "operator-policies",
    "vhost-limits", "vhost-limits/shop", "parameters", "parameters/vhost-limits/shop", "definitions",
    "whoami", "health/checks/alarms", "cluster-name",
)  # fmt: skip


EVERYTHING_FOR_MONITORS = frozenset({"queues", "queues/%2F", "exchanges"})
"""Lists that `monitoring` sees in all vhosts: RabbitMQ shows it its own only."""


@pytest.mark.parametrize("user", [*TAGS, OUTSIDER])
def test_a_user_sees_the_same(both: tuple[Api, Api], user: str) -> None:
    problems = []
    for path in SEEN:
        if user == "monitor" and path in EVERYTHING_FOR_MONITORS:
            continue
        theirs, ours = (api.call("GET", path, user=user) for api in both)
        if theirs.status_code != ours.status_code:
            problems.append(f"{path}: {theirs.status_code} and {ours.status_code}")
        elif theirs.status_code == 200 and isinstance(theirs.json(), list):
            names = [_names(answer.json()) for answer in (theirs, ours)]
            if names[0] != names[1]:
                problems.append(f"{path}: {names[0]} and {names[1]}")
    assert not problems, "\n".join(problems)


def _names(rows: list[dict[str, Any]]) -> list[str]:
    """Return the names of objects; of those that brokers name themselves, their vhosts."""
    names = [f"{row.get('vhost')} {'' if 'node' in row or 'os_pid' in row else row.get('name')}" for row in rows]
    return sorted(name for name in names if not name.endswith(" amq.flow"))
