"""`penstock shard`: shards are added to a running node, drained and removed while clients go on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.errors import CommandError
from ops.rebalance import command as rebalancing
from ops.rebalance.records import Records
from ops.shards import command
from penstock.control.control import Refusal
from tests.broker import Broker
from tests.broker.traffic import Traffic
from tests.outcomes import Confirms
from tests.raw import Client
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

QUEUES = 12
DEPTH = 20
PLAN_SECONDS = 1234


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    settings = ("rebalance.loop_lag_ms=0", f"rebalance.plan_seconds={PLAN_SECONDS}")
    with Broker(tmp_path, *settings, acceptors=2, shards=2) as broker:
        yield broker


def shard(broker: Broker, *words: str, status: int = 0, app: Any = command.app) -> str:
    """Run `penstock shard` in this process, for speed; return its standard output or its error."""
    done = CliRunner().invoke(app, [*words, "--data", str(broker.directory / "data")])
    refused = isinstance(done.exception, CommandError)
    assert (2 if refused else done.exit_code) == status, (done.exception, done.output)
    return str(done.exception) if refused else done.stdout


def states(broker: Broker) -> dict[int, str]:
    """Return the state of each shard; nothing while there is no router."""
    with suppress(OSError, Refusal):
        return {each["shard"]: each["state"] for each in broker.call("shard_list")}
    return {}


def homes(broker: Broker) -> dict[str, int]:
    return {each["name"]: each["shard"] for each in broker.call("placement", vhost=None)["queues"]}


@pytest.mark.timeout(300)
def test_shards_come_and_go_while_clients_go_on(own: Broker) -> None:
    with Traffic(own, {f"busy.{number}": 1 for number in range(QUEUES)}) as traffic:
        before = homes(own)
        assert shard(own, "add") == "shard 2 is serving\n"
        assert homes(own) == before
        with Client.connect(own.address) as client:
            channel = client.channel()
            for number in range(3 * QUEUES):
                channel.call("queue.declare", queue=f"new.{number}", durable=True)
        assert set(homes(own).values()) == {0, 1, 2}
        assert "shard 0 is empty" in shard(own, "drain", "0")
        assert set(homes(own).values()) == {1, 2}
        assert shard(own, "remove", "0") == "shard 0 removed\n"
        rows = json.loads(shard(own, "list", "--json"))
        assert [(row["shard"], row["state"], row["process"]) for row in rows] == [
            (1, "serving", "ready"),
            (2, "serving", "ready"),
        ]
        assert sum(row["queues"] for row in rows) == 4 * QUEUES
        assert not (own.directory / "data" / "shards" / "0").exists()
        traffic.finish()
        sent = traffic.sent
    assert {name: numbers for name, numbers in traffic.seen.items() if numbers != list(range(sent[name]))} == {}
    assert traffic.redelivered == 0
    placed = homes(own)
    own.stop()
    own.start()
    assert states(own) == {1: "serving", 2: "serving"}
    assert homes(own) == placed
    with Client.connect(own.address) as client:
        channel = client.channel()
        assert {channel.depth(name) for name in placed} == {0}


@pytest.mark.timeout(300)
def test_requests_and_answers_while_shards_come_and_go(own: Broker) -> None:
    with Client.connect(own.address) as one, Client.connect(own.address) as other:
        asking, serving = one.channel(), other.channel()
        serving.call("queue.declare", queue="requests")
        serving.call("basic.consume", queue="requests", no_ack=True)
        asking.call("basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True)

        def ask(text: bytes) -> bytes:
            asking.publish(text, "requests", reply_to="amq.rabbitmq.reply-to")
            request = serving.take("basic.deliver")
            name = request.properties["reply_to"]
            assert serving.call("queue.declare", queue=name, passive=True).consumers == 1
            serving.publish(request.body + b"!", name)
            answer: bytes = asking.take("basic.deliver").body
            return answer

        assert ask(b"two shards") == b"two shards!"
        shard(own, "add", "2")
        assert ask(b"four") == b"four!"
        shard(own, "drain", "0")
        shard(own, "drain", "1")
        assert ask(b"two of them drained") == b"two of them drained!"
        shard(own, "remove", "0")
        shard(own, "remove", "1")
        assert ask(b"the other two") == b"the other two!"


def test_queues_that_cannot_leave_are_named(own: Broker) -> None:
    with Client.connect(own.address) as client:
        channel = client.channel()
        for number in range(QUEUES):
            channel.call("queue.declare", queue=f"own.{number}", exclusive=True)
            channel.call("queue.declare", queue=f"free.{number}", durable=True)
        stays = [name for name, home in homes(own).items() if home == 1 and name.startswith("own.")]
        reported = shard(own, "drain", "1", status=1)
        for name in stays:
            assert f"queue '{name}' in vhost '/' stays: it is exclusive: it goes with its connection" in reported
        assert {name for name, home in homes(own).items() if home == 1} == set(stays)
        records = Records(own.directory / "data")
        plans = [records.plan(id) for id in records.by_plan()]
        assert {round(plan.expires - plan.made) for plan in plans} == {PLAN_SECONDS}
        assert f"shard 1 has {len(stays)} queue" in shard(own, "remove", "1", status=2)
        assert "is the only one that takes queues" in shard(own, "drain", "0", status=2)
        shard(own, "undrain", "1")
        assert states(own) == {0: "serving", 1: "serving"}
    assert shard(own, "remove", "1", status=2).startswith("shard 1 takes queues")
    assert shard(own, "drain", "7", status=2) == "there is no shard 7"


def test_a_plan_empties_what_drains_and_fills_what_is_new(own: Broker) -> None:
    with Client.connect(own.address) as client:
        channel = client.channel()
        for number in range(QUEUES):
            channel.call("queue.declare", queue=f"q.{number}", durable=True)
    shard(own, "add")
    own.call("shard_drain", shard=0)
    made = json.loads(shard(own, "plan", "--window", "1 s", "--min-coverage", "0", "--json", app=rebalancing.app))
    assert {move["from"] for move in made["moves"]} == {0}
    assert {move["to"] for move in made["moves"]} == {1, 2}
    shard(own, "apply", made["id"], app=rebalancing.app)
    assert set(homes(own).values()) == {1, 2}


@pytest.mark.timeout(300)
def test_what_commands_left_counts_more_than_the_settings(own: Broker) -> None:
    shard(own, "add")
    own.stop()
    own.command[own.command.index("--shards") + 1] = "1"
    own.start()
    assert states(own) == {0: "serving", 1: "serving", 2: "serving"}
    assert "the setting shards is ignored" in own.log
    assert "all are taken" in shard(own, "add", "5", status=2)
    wait_for(lambda: set(states(own).values()) == {"serving"}, PATIENCE, "all places")
    assert len(states(own)) == 7


def fill(broker: Broker) -> None:
    with Client.connect(broker.address) as client:
        channel = client.channel()
        confirms = Confirms(channel)
        for number in range(QUEUES):
            channel.call("queue.declare", queue=f"full.{number}", durable=True)
            for content in range(DEPTH):
                confirms.publish(b"%d" % content, f"full.{number}", delivery_mode=2)
        confirms.wait()


def check_full(broker: Broker) -> None:
    """Check that every message is there, once and in order."""
    with Client.connect(broker.address) as client:
        channel = client.channel()
        for number in range(QUEUES):
            found = [channel.get(f"full.{number}") for _ in range(DEPTH)]
            assert [event and event.body for event in found] == [b"%d" % content for content in range(DEPTH)]
            assert channel.depth(f"full.{number}") == 0


@pytest.mark.timeout(300)
def test_deaths_while_shards_come_and_go(own: Broker) -> None:
    """The router, shards and the whole node are killed while shards are added and drained."""
    fill(own)
    own.call("shard_add")
    own.kill("router")
    wait_for(lambda: states(own).get(2) == "serving", 2 * PATIENCE, "shard 2, by another router")
    own.call("shard_add")
    children = wait_for(lambda: len(found := own.children("shard")) == 4 and found, 2 * PATIENCE, "shard 3")
    os.kill(children[-1], signal.SIGKILL)
    wait_for(lambda: states(own).get(3) == "serving", 2 * PATIENCE, "shard 3, in another life")
    own.call("shard_drain", shard=0)
    own.kill_all()
    own.start()
    assert states(own) == {0: "draining", 1: "serving", 2: "serving", 3: "serving"}
    own.kill("router")
    wait_for(lambda: states(own), 2 * PATIENCE, "another router")
    assert "shard 0 is empty" in shard(own, "drain", "0")
    wait_for(lambda: json.loads(shard(own, "list", "--json"))[0]["stored"] == 0, PATIENCE, "an empty store")
    own.call("shard_remove", shard=0)
    own.kill_all()
    own.start()
    wait_for(lambda: sorted(states(own)) == [1, 2, 3], 2 * PATIENCE, "the end of shard 0")
    wait_for(lambda: len(own.children("shard")) == 3, PATIENCE, "the end of its process")
    assert 0 not in homes(own).values()
    check_full(own)
