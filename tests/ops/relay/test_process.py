"""Relays that a node runs, between two nodes: under load, with a part killed, held, without routes, reloaded."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from ops.relay.core import ROUTE_SECONDS
from tests.broker import Broker
from tests.ops.relay.nodes import Relaying, address, relaying, section, target_node
from tests.ops.relay.queues import channel_to, declare, drained, fill, numbers, ready, url_of
from tests.ops.relay.test_migration import Producer
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("relay_process")]


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Broker]:
    with target_node(tmp_path / "target") as broker:
        yield broker


def orders(target: Broker, **values: object) -> str:
    """A relay from queue a of its node to queue a of the target."""
    return section("orders", **{"queue": "a", "target": address(target), "target_queue": "a", **values})


def declared(node: Relaying, target: Broker) -> None:
    """Declare queue a at both ends, and have the relay try them."""
    for broker in (node.broker, target):
        with channel_to(broker) as channel:
            declare(channel, "a")
    node.broker.penstock("relay", "restart", "orders")


def test_it_relays_what_comes_and_says_so(tmp_path: Path, target: Broker) -> None:
    with relaying(tmp_path / "source", orders(target)) as node:
        declared(node, target)
        node.wait_state("orders", "running")
        with channel_to(node.broker) as channel, channel_to(target) as there:
            fill(channel, "a", range(500))
            wait_for(lambda: ready(there, "a") == 500, what="all messages")
            assert numbers(there, "a") == [*range(500)]
            wait_for(lambda: node.relays()["orders"]["unconfirmed"] == 0, what="the last confirms")
        facts = node.relays()["orders"]
        assert (facts["relayed"], facts["reason"], facts["unroutable"]) == (500, "", 0)
        assert (facts["queue"], facts["target_queue"]) == ("a", "a")
        assert facts["source"] == f"127.0.0.1:{node.broker.address.port}/%2F"
        names = {process.name() for process in node.broker.processes()}
        assert "pstk-relay-0" in names
        assert "relay 0" in node.broker.penstock("status").stdout
        assert node.broker.penstock("ping").returncode == 0


@pytest.mark.parametrize("killed", ["relay", "source", "target", "acceptor", "shard"])
def test_nothing_is_lost_when_a_part_is_killed_under_load(tmp_path: Path, target: Broker, killed: str) -> None:
    with relaying(tmp_path / "source", orders(target, prefetch=50)) as node:
        declared(node, target)
        with Producer(url_of(node.broker)) as producer:
            with channel_to(target) as there:
                wait_for(lambda: ready(there, "a") > 100, what="the first messages")
            if killed in ("source", "target"):
                victim = node.broker if killed == "source" else target
                victim.kill_all()
                victim.start()
            else:
                node.broker.wait_replaced(killed, node.broker.kill(killed))
            confirmed = len(producer.confirmed)
            wait_for(lambda: len(producer.confirmed) > confirmed + 100, what="a producer that goes on")
            sent = producer.stop()
        with channel_to(node.broker) as channel:
            wait_for(lambda: ready(channel, "a") == 0, what="an empty source")
        wait_for(lambda: node.relays().get("orders", {}).get("unconfirmed") == 0, what="the last confirms")
        with channel_to(target) as there:
            arrived = numbers(there, "a")
        with channel_to(node.broker) as channel:
            arrived += numbers(channel, "a")
        assert not sent - set(arrived) and len(sent) > 200


def test_a_full_target_holds_it_until_there_is_room(tmp_path: Path, target: Broker) -> None:
    with relaying(tmp_path / "source", orders(target, prefetch=20)) as node:
        with channel_to(target) as there:
            declare(there, "a", a={"x-max-length": 50, "x-overflow": "flow"})
        with channel_to(node.broker) as channel:  # a restart in the middle would bring some messages twice
            declare(channel, "a")
            fill(channel, "a", range(500))
            node.wait_state("orders", "held")
            wait_for(lambda: is_notified(node.relays()["orders"]), what="the target's word")
            wait_for(target.held, what="a held relay")
            facts = node.relays()["orders"]
            with channel_to(target) as there:
                at_target = ready(there, "a")
                assert at_target < 100 and facts["unconfirmed"] <= 20
                assert ready(channel, "a") >= 500 - at_target - 20, "the rest waits at the source"
                arrived: list[int] = []
                wait_for(lambda: arrived.extend(numbers(there, "a")) or len(arrived) >= 500, what="all messages")
            assert arrived == [*range(500)]
            node.wait_state("orders", "running")


def is_notified(facts: dict[str, Any]) -> bool:
    """Whether a relay is held by its target's word: before that comes, the target only confirms nothing."""
    return any(word in str(facts["reason"]) for word in ("channel.flow", "connection.blocked"))


@pytest.mark.long
def test_what_has_no_route_stays_until_there_is_one(tmp_path: Path, target: Broker) -> None:
    words = section("orders", queue="a", target=address(target), target_exchange="events", prefetch=5)
    with relaying(tmp_path / "source", words) as node, channel_to(target) as there:
        there.exchange_declare("events", "direct")
        declare(there, "b", "c")
        there.queue_bind("b", "events", "known")
        with channel_to(node.broker) as channel:
            declare(channel, "a")
            channel.exchange_declare("here", "fanout")
            channel.queue_bind("a", "here")
            node.broker.penstock("relay", "restart", "orders")
            for key, body in (("unknown", b"1"), ("known", b"2")):
                channel.basic_publish("here", key, body)
            wait_for(lambda: ready(there, "b") == 1, what="the message with a route")
            facts = wait_for(
                lambda: (found := node.relays()["orders"])["unroutable"] == 1 and found, what="the one without"
            )
            assert (facts["state"], facts["reason"]) == ("running", "the target has no route for 1 of the messages")
            for number in range(3, 7):
                channel.basic_publish("here", "unknown", b"%d" % number)
            facts = node.wait_state("orders", "held")
            assert facts["unroutable"] == 5
            there.queue_bind("c", "events", "unknown")
            wait_for(lambda: ready(there, "c") == 5, 6 * ROUTE_SECONDS, what="a route")
            assert numbers(there, "c") == [1, 3, 4, 5, 6]
            assert [method.routing_key for method, _, _ in drained(there, "b")] == ["known"]
            wait_for(lambda: node.relays()["orders"]["relayed"] == 6, what="all confirms")


def test_without_a_target_each_message_keeps_its_exchange(tmp_path: Path, target: Broker) -> None:
    words = section("orders", queue="a", target=address(target))
    with relaying(tmp_path / "source", words) as node, ExitStack() as stack:
        channel, there = (stack.enter_context(channel_to(broker)) for broker in (node.broker, target))
        for each, queue in ((channel, "a"), (there, "b")):
            each.exchange_declare("events", "topic")
            declare(each, queue)
            each.queue_bind(queue, "events", "order.*")
        node.broker.penstock("relay", "restart", "orders")
        channel.basic_publish("events", "order.new", b"7")
        wait_for(lambda: ready(there, "b") == 1, what="the message")
        ((method, _, _),) = drained(there, "b")
        assert (method.exchange, method.routing_key) == ("events", "order.new")
        channel.basic_publish("", "a", b"8")
        wait_for(lambda: node.relays()["orders"]["unroutable"] == 1, what="one whose queue is not there")


def test_one_that_fails_harms_no_other_and_goes_on_by_itself(tmp_path: Path, target: Broker) -> None:
    (secret := tmp_path / "url").write_text(f"amqp://guest:s3cr3t@127.0.0.1:{target.address.port}/")
    failing = section("denied", queue="a", target=f"@{secret}", target_queue="a")
    missing = section("missing", queue="a", source=f"@{tmp_path}/none", target_queue="b")
    with relaying(tmp_path / "source", orders(target), failing, missing) as node:
        facts = node.wait_state("orders", "failing")
        assert facts["reason"].endswith("404 NOT_FOUND - no queue 'a' in vhost '/'")
        for broker in (node.broker, target):
            with channel_to(broker) as channel:
                declare(channel, "a")
        node.wait_state("orders", "running")
        facts = wait_for(
            lambda: (found := node.relays()["denied"]) and "403" in found["reason"] and found, what="a refused login"
        )
        assert (facts["state"], facts["target"]) == ("failing", f"127.0.0.1:{target.address.port}/%2F")
        facts = node.wait_state("missing", "failing")
        assert facts["reason"] == f"source: cannot read the URL in {tmp_path}/none: No such file or directory"
        with channel_to(node.broker) as channel, channel_to(target) as there:
            fill(channel, "a", range(10))
            wait_for(lambda: ready(there, "a") == 10, what="messages of another")
        secret.write_text(url_of(target))
        done = node.broker.penstock("relay", "restart", "denied")
        assert (done.returncode, done.stdout) == (0, "relay 'denied' restarts\n")
        node.wait_state("denied", "running")
        shown = node.broker.penstock("relay", "list").stdout + node.broker.penstock("config", "show").stdout
        assert "s3cr3t" not in shown + node.broker.log
        audit = (node.broker.directory / "data" / "audit" / "relay.0.jsonl").read_text()
        assert '"relay_restart"' in audit and '"denied"' in audit


def test_a_source_that_waits_no_longer_for_acks_is_consumed_from_anew(tmp_path: Path, target: Broker) -> None:
    timeout = "[amqp]\nconsumer_timeout = 2\n"
    with relaying(tmp_path / "source", timeout, orders(target, prefetch=10)) as node, ExitStack() as stack:
        channel, there = (stack.enter_context(channel_to(broker)) for broker in (node.broker, target))
        declare(there, "a", a={"x-max-length": 10, "x-overflow": "flow"})
        declare(channel, "a")
        fill(channel, "a", range(50))
        node.broker.penstock("relay", "restart", "orders")
        wait_for(lambda: "406" in (node.relays()["orders"]["last_error"] or ""), what="the end of its channel")
        arrived: list[int] = []
        wait_for(lambda: arrived.extend(numbers(there, "a")) or {*arrived} >= {*range(50)}, what="all messages")
        wait_for(lambda: ready(channel, "a") == 0, what="an empty source")


def test_a_target_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    target = target_node(tmp_path / "target")
    target.kill_all()
    with relaying(tmp_path / "source", orders(target)) as node:
        with channel_to(node.broker) as channel:
            declare(channel, "a")
            fill(channel, "a", range(10))
        node.broker.penstock("relay", "restart", "orders")
        facts = node.wait_state("orders", "connecting")
        assert "trying again: ConnectionRefusedError" in facts["reason"]
        target.start()
        with target, channel_to(target) as there:
            declare(there, "a")
            wait_for(lambda: ready(there, "a") == 10, what="all messages")


def test_a_reload_starts_changes_and_ends_relays(tmp_path: Path, target: Broker) -> None:
    with relaying(tmp_path / "source") as node, channel_to(node.broker) as channel, channel_to(target) as there:
        declare(channel, "a", "b")
        declare(there, "a", "c")
        assert node.broker.penstock("relay", "list").stdout == "no relays\n"
        assert not node.broker.children("relay")
        done = node.broker.penstock("relay", "restart", "orders")
        assert (done.returncode, done.stderr) == (2, "penstock: there is no relay 'orders'\n")
        other = section("other", queue="b", target=address(target), target_queue="c")
        node.reload(orders(target), other)
        node.wait_state("orders", "running")
        pid = node.broker.children("relay")
        fill(channel, "a", range(3))
        wait_for(lambda: ready(there, "a") == 3, what="messages of the first")
        node.reload(section("orders", queue="a", target=address(target), target_queue="c", prefetch=1))
        wait_for(lambda: [*node.relays()] == ["orders"], what="the end of the other")
        fill(channel, "a", range(3, 6))
        fill(channel, "b", range(2))
        wait_for(lambda: ready(there, "c") == 3, what="messages on their new way")
        assert ready(channel, "b") == 2 and node.broker.children("relay") == pid
        node.reload("[relays.orders]\nqueue = 5\n")
        wait_for(lambda: "invalid configuration, nothing changes" in node.broker.log, what="a refused reload")
        assert node.wait_state("orders", "running")["prefetch"] == 1
        node.reload()
        wait_for(lambda: not node.broker.children("relay"), what="the end of the process")
        assert node.broker.penstock("relay", "list").stdout == "no relays\n"
        node.reload(orders(target))
        assert node.wait_state("orders", "running")["relayed"] == 0


def test_source_and_target_that_are_one_queue_are_refused(tmp_path: Path) -> None:
    with relaying(tmp_path / "source") as node:
        port = node.broker.address.port
        node.reload(section("ring", queue="a", target=f"amqp://localhost:{port}", target_queue="a"))
        assert node.wait_state("ring", "failing")["reason"] == "source and target are the same queue"


def test_a_stop_takes_no_longer_than_its_time_though_confirms_are_withheld(tmp_path: Path, target: Broker) -> None:
    with relaying(tmp_path / "source", orders(target, prefetch=20)) as node:
        with channel_to(target) as there:
            declare(there, "a", a={"x-max-length": 50, "x-overflow": "flow"})
        with channel_to(node.broker) as channel:
            declare(channel, "a")
            fill(channel, "a", range(500))
        node.broker.penstock("relay", "restart", "orders")
        node.wait_state("orders", "held")
        (pid,) = node.broker.children("relay")
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not psutil.pid_exists(pid), what="the end of the process")
        assert "killed, it took too long" not in node.broker.log
        node.wait_state("orders", "held", "running", "connecting")
    assert "killed, it took too long" not in node.broker.log


def test_without_pika_the_node_serves_and_its_relays_say_why(tmp_path: Path, target: Broker) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "pika.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'pika'\", name='pika')\n"
    )
    words = orders(target)
    (tmp_path / "source").mkdir()
    (file := tmp_path / "source" / "penstock.toml").write_text(words)
    environment = {"PYTHONPATH": str(tmp_path / "without")}
    with Broker(tmp_path / "source", options=("--config", str(file)), environment=environment) as broker:
        listed = wait_for(lambda: broker.penstock("relay", "list", "--json").stdout, what="an answer")
        assert "pika is not installed: pip install 'penstock[client]'" in listed
        assert broker.penstock("ping").returncode == 0
        assert "Traceback" not in broker.log
