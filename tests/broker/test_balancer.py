"""Automatic rebalancing of a real node: uneven load is evened out while clients go on, within what operators allow."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.errors import CommandError
from ops.rebalance import command
from router.model.placement import place
from tests.broker import Broker
from tests.broker.traffic import Traffic
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]

SHARDS = 3
QUICK = (
    "rebalance.low_rate=1", "rebalance.loop_lag_ms=0", "rebalance.automatic.window_seconds=2",
    "rebalance.automatic.every_seconds=0.1", "rebalance.automatic.windows=2", "rebalance.automatic.goals=load",
)  # fmt: skip
LONG = 4 * PATIENCE


def skewed(count: int = 12) -> dict[str, int]:
    """Return queues and the messages of each in a round: those that the hash places on shard 0 get more."""
    names = [f"uneven.{number}" for number in range(count)]
    return {name: 6 if place("/", name, range(SHARDS), {}) == 0 else 1 for name in names}


def write_mode(directory: Path, mode: str) -> Path:
    """Write the configuration with this mode; return its path."""
    path = directory / "penstock.toml"
    path.write_text(f'[rebalance.automatic]\nmode = "{mode}"\n')
    return path


class Node:
    """A node with automatic rebalancing."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.data = broker.directory / "data"

    def rebalance(self, *words: str, status: int = 0) -> str:
        """Run `penstock rebalance` in this process, for speed; return its standard output or its error."""
        done = CliRunner().invoke(command.app, [*words, "--data", str(self.data)])
        refused = isinstance(done.exception, CommandError)
        assert (2 if refused else done.exit_code) == status, (done.exception, done.output)
        return str(done.exception) if refused else done.stdout

    def history(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.rebalance("history", "--json"))
        return found

    def wait_history(self, *states: str) -> list[dict[str, Any]]:
        """Wait until the plans have these states, in order; return them."""
        wait_for(lambda: [each["state"] for each in self.history()] == [*states], LONG, f"{states}")
        return self.history()

    def wait_said(self, stage: str, why: str) -> None:
        """Wait until the balancer says that it is in a stage, for a reason that contains these words."""

        def said() -> bool:
            facts = json.loads(self.rebalance("status", "--json"))["automatic"]
            return facts["stage"] == stage and why in facts["why"]

        wait_for(said, LONG, f"{stage}: {why}")

    def reload(self, mode: str) -> None:
        """Have the node read its configuration again, with another mode."""
        write_mode(self.broker.directory, mode)
        os.kill(self.broker.pid, signal.SIGHUP)

    def homes(self) -> dict[str, int]:
        """Return the shard of each queue."""
        return {each["name"]: each["shard"] for each in self.broker.call("placement", vhost="/")["queues"]}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    brokers: list[Broker] = []

    def started(mode: str, *settings: str) -> Node:
        options = ("--config", str(write_mode(tmp_path, mode)))
        brokers.append(Broker(tmp_path, *QUICK, *settings, acceptors=2, shards=SHARDS, options=options))
        return Node(brokers[-1])

    yield started
    for broker in brokers:
        broker.stop()


def check_traffic(traffic: Traffic) -> None:
    """Check that each message was received once and in order."""
    traffic.finish()
    sent = traffic.sent
    assert {name: numbers for name, numbers in traffic.seen.items() if numbers != list(range(sent[name]))} == {}
    assert traffic.redelivered == 0


@pytest.mark.timeout(300)
def test_a_hot_shard_is_relieved_while_clients_go_on(start: Any) -> None:
    node = start("on")
    with Traffic(node.broker, skewed()) as traffic:
        before = node.homes()
        (applied,) = node.wait_history("applied")
        assert applied["by"] == "automatic" and applied["moved"] == applied["moves"] > 0
        assert node.homes() != before
        node.wait_said("idle", f"plan {applied['plan']} has ended")
        undone = json.loads(node.rebalance("undo", applied["plan"], "--json"))
        node.rebalance("apply", undone["id"])
        assert node.homes() == before
        node.wait_said("idle", f"an operator has undone plan {applied['plan']}")
        check_traffic(traffic)
    assert [(each["by"], each["state"]) for each in node.history()] == [
        ("automatic", "applied"), ("operator", "applied"),
    ]  # fmt: skip


@pytest.mark.timeout(300)
def test_a_dry_run_keeps_a_plan_and_moves_nothing(start: Any) -> None:
    node = start("dry-run")
    with Traffic(node.broker, skewed()) as traffic:
        before = node.homes()
        (kept,) = node.wait_history("kept")
        assert (kept["by"], kept["moved"]) == (None, 0) and kept["moves"] > 0
        node.wait_said("idle", f"plan {kept['plan']} waits for an operator")
        assert f"its last plan is {kept['plan']}: kept" in node.rebalance("status")
        assert node.homes() == before
        assert node.broker.call("rebalance_lease") is None
        node.rebalance("apply", kept["plan"])
        check_traffic(traffic)
    (applied,) = node.history()
    assert (applied["plan"], applied["by"], applied["state"]) == (kept["plan"], "operator", "applied")
    assert node.homes() != before


@pytest.mark.timeout(300)
def test_operators_come_first(start: Any) -> None:
    """It leaves an operator's plan alone, does nothing in a pause, and begins when the configuration says so."""
    node = start("off")
    broker = node.broker
    assert not broker.children("balancer")
    assert "automatic rebalancing is off" in node.rebalance("status")
    node.rebalance("pause")
    with Traffic(broker, skewed()) as traffic:
        before = node.homes()
        node.reload("on")
        node.wait_said("idle", "has paused it")
        hold = {"plan": "operators", "holder": "ann", "seconds": 300, "limits": {}, "progress": {"waits_for": ""}}
        broker.call("rebalance_hold", **hold)
        assert node.rebalance("resume") == "automatic rebalancing is no longer paused\n"
        node.wait_said("idle", "plan operators is being applied")
        assert node.homes() == before and not node.history()
        broker.call("rebalance_release", plan="operators", holder="ann")
        node.wait_history("applied")
        node.reload("off")
        wait_for(lambda: "automatic rebalancing is off" in node.rebalance("status"), what="the end of it")
        check_traffic(traffic)


def stopped_in_a_run(node: Node) -> tuple[str, int]:
    """Wait until it has begun a plan, whose first move waits for quick event loops; return the plan and its process."""

    def waiting() -> tuple[str, int] | None:
        lease, pids = node.broker.call("rebalance_lease"), node.broker.children("balancer")
        held = lease is not None and [lease["holder"].rpartition(":")[2]] == [str(pid) for pid in pids]
        return (lease["plan"], pids[0]) if held and "event loop lags" in lease["progress"]["waits_for"] else None

    return wait_for(waiting, LONG, "a plan that waits")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("during", [pytest.param("a wait", marks=pytest.mark.slow), "a move"])
def test_a_run_whose_process_is_killed_goes_on(start: Any, during: str) -> None:
    node = start("on", "rebalance.loop_lag_ms=0.001", "watchdog.seconds=0")
    broker = node.broker
    with Traffic(broker, skewed()) as traffic:
        plan, pid = stopped_in_a_run(node)
        moves = json.loads((node.data / "rebalance" / "plans" / f"{plan}.json").read_text())["moves"]
        target = broker.children("shard")[moves[0]["to"]]
        if during == "a move":
            os.kill(target, signal.SIGSTOP)
            node.rebalance("limit", "--loop-lag-ms", "0")
            wait_for(lambda: broker.call("placement", vhost="/")["moves"], LONG, "a move")
        os.kill(pid, signal.SIGKILL)
        os.kill(target, signal.SIGCONT)
        broker.wait_replaced("balancer", pid)
        assert stopped_in_a_run(node)[0] == plan
        node.rebalance("limit", "--loop-lag-ms", "0")
        (applied,) = node.wait_history("applied")
        assert (applied["plan"], applied["by"]) == (plan, "automatic")
        homes = node.homes()
        assert [homes[move["queue"]] for move in moves] == [move["to"] for move in moves]
        check_traffic(traffic)


@pytest.mark.timeout(300)
def test_a_run_ends_with_a_pause_and_with_the_node(start: Any) -> None:
    node = start("on", "rebalance.loop_lag_ms=0.001", "rebalance.automatic.rest_seconds=0")
    broker = node.broker
    with Traffic(broker, skewed()) as traffic:
        plan, _ = stopped_in_a_run(node)
        node.rebalance("pause", "1h")
        (first,) = node.wait_history("withdrawn")
        assert first["plan"] == plan and "has paused it" in first["reason"]
        assert broker.call("rebalance_lease") is None
        node.rebalance("resume")
        stopped_in_a_run(node)
        check_traffic(traffic)
    broker.stop()
    assert [(each["state"], each["moved"]) for each in node.history()] == [("withdrawn", 0)] * 2
    assert node.history()[1]["reason"] == "the node stops"
    broker.start()
