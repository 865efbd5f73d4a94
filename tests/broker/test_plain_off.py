"""A node without the plain listener: it serves its other listeners only, and each command says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.broker import Broker
from tests.broker.listeners import address_of, listening, with_clients
from tests.broker.test_tls import connect
from tests.waiting import wait_for

pytestmark = pytest.mark.broker

RELAY = ["relays.out.queue=q", "relays.out.target=amqp://127.0.0.1:1/"]
MISSING = "this node has no listener without TLS: give a URL that begins with amqps://"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Return a node that serves with TLS only."""
    with Broker(tmp_path_factory.mktemp("secured"), "plain=false", *listening(), *RELAY) as node:
        yield node


def test_only_the_other_listener_serves(broker: Broker) -> None:
    listens: set[int] = set()
    for process in broker.processes():
        with suppress(psutil.NoSuchProcess):  # the relay, which finds no target, ends and is started again
            found = process.net_connections("inet")
            listens |= {each.laddr.port for each in found if each.status == psutil.CONN_LISTEN}
    assert listens == {address_of(broker).port}
    with connect(address_of(broker)) as connection:
        assert connection.channel().queue_declare("", exclusive=True).method.queue


def test_all_commands_say_where_it_serves(broker: Broker) -> None:
    address = f"127.0.0.1:{address_of(broker).port}"
    assert broker.address == address_of(broker)
    assert broker.penstock("ping").stdout == f"serving on {address} with TLS\n"
    assert f"ok      port         {address} with TLS greets clients" in broker.penstock("health").stdout
    assert broker.penstock("status").stdout.startswith(f"node, public on {address} with TLS, pid {broker.pid}")
    facts = json.loads(broker.penstock("status", "--json").stdout)["node"]
    assert facts["amqp"] is None and [each["address"] for each in facts["listeners"]] == [address]
    ready = next(line for line in broker.log.splitlines() if '"event":"ready"' in line.replace(" ", ""))
    assert json.loads(ready)["listeners"] == {"public": address} and "amqp" not in json.loads(ready)


def test_what_would_connect_to_the_plain_listener_asks_for_a_url(broker: Broker) -> None:
    commands = [["message", "move", "q", "there"], ["migrate", "amqp://guest:guest@127.0.0.1:1/other", "q"]]
    for command in commands:
        done = broker.penstock(*command)
        assert (done.returncode, done.stdout) == (2, "") and MISSING in done.stderr
    wait_for(lambda: f"source: {MISSING}" in broker.penstock("relay", "list", "--json").stdout)


def test_a_listener_with_neither_tls_nor_proxies_takes_its_place(tmp_path: Path) -> None:
    inner = ["listeners.inner.port=0"]
    with Broker(tmp_path, "plain=false", *listening(*with_clients("required")), *inner) as node:
        for name in ("q", "there"):
            assert node.penstock("queue", "declare", name).returncode == 0
        assert node.penstock("message", "move", "q", "there").stdout == "0 messages moved to queue 'there'\n"
        assert "with TLS shows its certificate" in node.penstock("health").stdout


def test_without_any_listener_a_node_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as failed:
        Broker(tmp_path, "plain=false")
    last = str(failed.value).splitlines()[-1]
    assert last == "penstock: plain is off, and there are no listeners: nothing would be served"
