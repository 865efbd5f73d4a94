"""The history of held producers: `penstock flow ledger` and `penstock flow incidents`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.flow import command
from tests.broker import Broker
from tests.broker.flow import MARKS, STOP
from tests.outcomes import wait_get
from tests.raw import CAPABILITIES, Client
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def test_a_stop_is_in_the_ledger_and_among_the_incidents_that_survive_a_restart(tmp_path: Path) -> None:
    def flow(*arguments: str) -> Any:
        done = CliRunner().invoke(command.app, [*arguments, "--data", str(tmp_path / "data"), "--json"])
        assert done.exit_code == 0, done.exception
        return json.loads(done.stdout)

    with Broker(tmp_path, acceptors=2, shards=2) as broker:
        assert flow("incidents") == [] and flow("ledger") == []
        with (
            Client.connect(broker.address) as consumer,
            Client.connect(broker.address, properties={"capabilities": CAPABILITIES, "product": "x"}) as producer,
        ):
            channel = consumer.channel()
            channel.call("queue.declare", queue="work", durable=True, arguments=MARKS)
            publishing = producer.channel()
            for number in range(2 * STOP):
                publishing.publish(b"%d" % number, "work")
            producer.take("connection.blocked")
            wait_for(lambda: [each for each in flow("ledger") if each["seconds"] > 2], what="held seconds")
            (account,) = flow("ledger", "--by", "user")
            assert (account["name"], account["stops"]) == ("guest", 1)
            for _ in range(2 * STOP):
                wait_get(channel, "work")
            producer.take("connection.unblocked")
            *_, found = wait_for(lambda: [each for each in flow("incidents") if each["victims"]])
        assert (found["kind"], found["vhost"], found["queue"], found["holds"]) == ("queue", "/", "work", 1)
        assert found["seconds"] > 2 and found["held_seconds"] > 2
        assert found["peak_count"] > STOP and found["overshoot_count"] == found["peak_count"] - STOP
        assert found["actions"]["connection.blocked"] == 1
        assert found["victims"][0]["user"] == "guest" and found["victims"][0]["client"] == "x"
        assert [each["name"] for each in flow("ledger", "--by", "queue")] == ["work"]
        assert [each["event"] for each in flow("events")][-3:] == ["resume", "stop", "near"]
        broker.stop()
        assert found in flow("incidents")
        broker.start()
        assert found in flow("incidents")
    assert (
        "queue work in vhost /"
        in CliRunner().invoke(command.app, ["incidents", "--data", str(tmp_path / "data")]).stdout
    )


def test_a_queue_that_flaps_is_among_the_incidents(tmp_path: Path) -> None:
    rounds = 6
    with Broker(tmp_path) as broker:
        with (
            Client.connect(broker.address) as purger,
            Client.connect(broker.address, properties={"capabilities": CAPABILITIES}) as producer,
        ):
            channel, publishing = purger.channel(), producer.channel()
            channel.call("queue.declare", queue="flaps", arguments=MARKS)
            for _ in range(rounds):
                for number in range(2 * STOP):
                    publishing.publish(b"%d" % number, "flaps")
                producer.take("connection.blocked")
                channel.call("queue.purge", queue="flaps")
                producer.take("connection.unblocked")
                channel.call("queue.purge", queue="flaps")
        broker.stop()
        reported = CliRunner().invoke(command.app, ["incidents", "--data", str(tmp_path / "data"), "--json"])
        found = json.loads(reported.stdout)
    assert {each["queue"] for each in found} == {"flaps"}
    assert sum(each["stops"] for each in found) == rounds, "however long each of them took"
    assert sum(each["holds"] for each in found) == rounds
    assert {victim["user"] for each in found for victim in each["victims"]} == {"guest"}
