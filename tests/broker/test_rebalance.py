"""`penstock rebalance`: a plan for uneven load, applied while clients go on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from typer.testing import CliRunner

from ops.errors import CommandError
from ops.rebalance import command
from router.model.placement import place
from tests.broker import Broker
from tests.broker.process import ROOT
from tests.broker.traffic import Traffic
from tests.raw import Client
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

SHARDS = 4
HOT_WEIGHT = 5
WINDOW_MESSAGES = 2000
DEPTH = 200
"""The depth of each queue: enough for a limit of one message a second to show."""


def skewed(count: int) -> dict[str, int]:
    """Return queues and the messages of each in a round: those that the hash places on shard 0 get more."""
    names = [f"uneven.{number}" for number in range(count)]
    return {name: HOT_WEIGHT if place("/", name, range(SHARDS), {}) == 0 else 1 for name in names}


@pytest.fixture(params=[24, pytest.param(200, marks=pytest.mark.slow)])
def count(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    settings = "rebalance.low_rate=1", "rebalance.loop_lag_ms=0"
    with Broker(tmp_path, *settings, acceptors=2, shards=SHARDS) as broker:
        yield broker


def rebalance(broker: Broker, *words: str, status: int = 0) -> str:
    """Run `penstock rebalance` in this process, for speed; return its standard output or its error."""
    done = CliRunner().invoke(command.app, [*words, "--data", str(broker.directory / "data")])
    refused = isinstance(done.exception, CommandError)
    assert (2 if refused else done.exit_code) == status, (done.exception, done.output)
    return str(done.exception) if refused else done.stdout


def uneven(broker: Broker, traffic: Traffic) -> float:
    """Return the publishes to the busiest shard, divided by the mean, over a window from now on."""
    homes = {each["name"]: each["shard"] for each in broker.call("placement", vhost="/")["queues"]}
    before = {queue.name: queue.counters.published for queue in broker.queues()}
    begun = sum(traffic.sent.values())
    wait_for(lambda: traffic.failed or sum(traffic.sent.values()) - begun > WINDOW_MESSAGES, 3 * PATIENCE, "traffic")
    loads = [0] * SHARDS
    for queue in broker.queues():
        loads[homes[queue.name]] += queue.counters.published - before[queue.name]
    return max(loads) / (sum(loads) / SHARDS)


@pytest.mark.timeout(300)
def test_uneven_load_is_evened_out_while_clients_go_on(own: Broker, count: int) -> None:
    with Traffic(own, skewed(count)) as traffic:
        assert uneven(own, traffic) > 1.6
        before = {each["name"]: each["shard"] for each in own.call("placement", vhost="/")["queues"]}
        made = json.loads(rebalance(own, "plan", "--window", "10 s", "--json"))
        assert made["moves"]
        assert made["after"]["load"]["max_over_mean"] <= 1.10
        reported = rebalance(own, "apply", made["id"])
        assert f"plan {made['id']}: applied" in reported
        assert uneven(own, traffic) <= 1.15
        verified = json.loads(rebalance(own, "verify", made["id"], "--json"))
        assert (verified["wrong"], verified["queues"]) == ([], count)
        undone = json.loads(rebalance(own, "undo", made["id"], "--json"))
        assert [(each["queue"], each["to"]) for each in undone["moves"]] == [
            (each["queue"], each["to"]) for each in made["inverse"]
        ]
        rebalance(own, "apply", undone["id"])
        assert {each["name"]: each["shard"] for each in own.call("placement", vhost="/")["queues"]} == before
        traffic.finish()
        sent = traffic.sent
    assert {name: numbers for name, numbers in traffic.seen.items() if numbers != list(range(sent[name]))} == {}
    assert traffic.redelivered == 0
    history = json.loads(rebalance(own, "history", "--json"))
    assert [(each["plan"], each["state"], each["moved"]) for each in history] == [
        (each["id"], "applied", len(each["moves"])) for each in (made, undone)
    ]


class Apply:
    """`penstock rebalance apply` in a process of its own."""

    def __init__(self, broker: Broker, *arguments: str) -> None:
        words = [
            sys.executable,
            "-m",
            "ops",
            "rebalance",
            "apply",
            *arguments,
            "--data",
            str(broker.directory / "data"),
        ]
        self.process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self) -> tuple[int, str]:
        reported, _ = self.process.communicate(timeout=2 * PATIENCE)
        return self.process.returncode, reported


def waiting(broker: Broker, why: str, done: int) -> dict[str, Any]:
    """Return the lease, once `done` moves are done and the apply waits for `why`."""

    def found() -> dict[str, Any] | None:
        try:
            lease: dict[str, Any] | None = broker.call("rebalance_lease")
        except OSError:  # there is no router at present
            return None
        progress = {} if lease is None else lease["progress"]
        return lease if (progress.get("waits_for"), progress.get("done")) == (why, done) else None

    return wait_for(found, 2 * PATIENCE, f"waits for {why}")


@pytest.fixture
def full(own: Broker) -> list[str]:
    """Queues with equally many messages and no consumers, all but two placed on shard 0."""
    names = [f"full.{number}" for number in range(60)]
    with Client.connect(own.address) as client:
        channel = client.channel()
        on_first = [name for name in names if place("/", name, range(SHARDS), {}) == 0]
        names = [*on_first[:8], "other.0", "other.1"]
        for name in names:
            channel.call("queue.declare", queue=name, durable=True)
        channel.call("confirm.select")
        for name in names:
            for _ in range(DEPTH):
                channel.publish(b"m", name, delivery_mode=2)
        wait_for(lambda: [each.ready for each in own.queues()] == [DEPTH] * len(names), what="all messages")
    return names


def inputs(broker: Broker, directory: Path) -> Path:
    """Write a file like the pipeline's, with the same load for all queues; return its path."""
    fixed = {"vhost": "/", "shard": 0, "p50_rate": 500.0, "p95_rate": 1000.0, "p95_bytes_rate": 1e5, "coverage": 1.0}
    zero = dict.fromkeys(("peak_depth", "peak_bytes", "stopped_share", "backlog", "backlog_bytes"), 0)
    path = directory / "inputs.json"
    path.write_text(json.dumps([{**fixed, **zero, "queue": each.name} for each in broker.queues()]))
    return path


def test_an_operator_watches_slows_and_ends_it(own: Broker, full: list[str], tmp_path: Path) -> None:
    made = json.loads(rebalance(own, "plan", "--inputs", str(inputs(own, tmp_path)), "--json"))
    other = json.loads(rebalance(own, "plan", "--inputs", str(inputs(own, tmp_path)), "--json"))
    assert len(made["moves"]) >= 3
    assert {move["messages"] for move in made["moves"]} == {DEPTH}
    with Apply(own, made["id"], "--messages-per-second", "1") as apply:
        waiting(own, "the rate limits", 1)
        assert f"plan {made['id']} is being applied by" in rebalance(own, "status")
        assert "whose lease expires in" in rebalance(own, "apply", made["id"], status=2)
        pid = own.kill("router")
        own.wait_replaced("router", pid)
        assert waiting(own, "the rate limits", 1)["limits"]["messages_per_second"] == 1
        rebalance(own, "limit", "--moves", "0", "--messages-per-second", "0")
        waiting(own, "an operator allows no moves", 1)
        rebalance(own, "abort")
        assert apply.end()[0] == 1
    (ended,) = json.loads(rebalance(own, "history", "--json"))
    assert (ended["state"], ended["moved"]) == ("aborted", 1)
    rebalance(own, "verify", made["id"], status=1)
    assert f"plan {made['id']}: applied" in rebalance(own, "apply", made["id"])
    rebalance(own, "verify", made["id"])
    with Client.connect(own.address) as client:
        assert [client.channel().depth(name) for name in full] == [DEPTH] * len(full)
    assert f"the placement is of version {len(made['moves'])}, plan" in rebalance(own, "apply", other["id"], status=2)
    assert own.call("rebalance_lease") is None


@pytest.mark.slow
def test_an_apply_that_is_killed_goes_on_where_it_ended(own: Broker, full: list[str], tmp_path: Path) -> None:
    made = json.loads(rebalance(own, "plan", "--inputs", str(inputs(own, tmp_path)), "--json"))
    with Apply(own, made["id"], "--messages-per-second", "1") as apply:
        waiting(own, "the rate limits", 1)
        apply.process.kill()
    assert json.loads(rebalance(own, "history", "--json"))[0]["state"] == "applying"  # the lease has not expired
    wait_for(lambda: own.call("rebalance_lease") is None, 2 * PATIENCE, "the end of the lease")
    assert json.loads(rebalance(own, "history", "--json"))[0]["state"] == "interrupted"
    assert own.stop() is None
    own.start()
    rebalance(own, "apply", made["id"])
    (ended,) = json.loads(rebalance(own, "history", "--json"))
    assert (ended["state"], ended["moved"], ended["messages"]) == (
        "applied",
        len(made["moves"]),
        DEPTH * len(made["moves"]),
    )
    rebalance(own, "verify", made["id"])
