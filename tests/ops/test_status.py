"""Status, read from the gauges of a node of stand-ins."""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from ops import status, status_tables
from penstock.memory.gauges import STARTING, Gauges
from penstock.memory.shared_counts import SharedCounts
from penstock.memory.shared_rates import Rate, SharedRates
from penstock.memory.shared_rows import row_name
from penstock.settings.limits import LimitSettings
from tests.broker import Broker
from tests.ops.conftest import StartNode
from tests.waiting import wait_for


def fill(gauges: Gauges) -> None:
    """Write two queues of the second shard, one of them saturated for a while, and an acceptor with held channels."""
    now = time.time_ns() // 1000
    first = gauges.shards
    gauges.queue_open(first, 71, "/", "orders [eu]", now)
    gauges.queue_write(first, 90, 10, 9000, 1000, 500, 400, 390, 2, 0, 3, 7, 1, now - 5_000_000, 80, 70, 0, 0)
    gauges.queue_write_over(first, 12, 0)
    gauges.queue_open(first + 5, 72, "a", "idle", now)
    gauges.counters_write("acceptor", 1, 12, 34, 5, 6 * 1024, 7, 8, 9, 10, 11, 3, 0, 5, 4, 2, 1, 0, 0, 77, 0, 6)
    gauges.pair_add_sent(1, 0, 4096)
    gauges.set_topology_version(33)
    gauges.gate_explain(1, "its store is full: 80 of 80 GiB")
    gauges.queue_write(1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 1, 1, now, 0, 0, 9, 8)


@pytest.mark.broker
def test_everything_in_the_gauges_is_told(start_node: StartNode, capsys: pytest.CaptureFixture[str]) -> None:
    node = start_node()
    node.wait_ready()
    children = node.wait_children(5)
    with Gauges.open(node.node.gauges) as gauges:
        fill(gauges)
    facts = asdict(status.collect(node.data))
    assert facts["node"]["amqp"] == f"127.0.0.1:{node.node.port}"
    assert (facts["node"]["pid"], facts["node"]["topology_version"]) == (node.process.pid, 33)
    assert facts["node"]["in_flight"] == 4096
    processes = {(each["role"], each["index"]): each for each in facts["processes"]}
    assert len(processes) == 6
    assert processes["shard", 1]["pid"] == children["pstk-shard-1"].pid
    assert all(each["state"] == "ready" and each["rss"] > 0 for each in facts["processes"])
    assert (processes["shard", 0]["saturated"], processes["shard", 0]["reason"]) == (False, None)
    assert processes["shard", 1]["saturated"] is True
    assert processes["shard", 1]["reason"] == "its store is full: 80 of 80 GiB"
    assert processes["acceptor", 1]["ignoring_flow"] == 3
    assert processes["acceptor", 1]["rung_park"] == 5
    assert (processes["acceptor", 1]["connections"], processes["acceptor", 1]["held_channels"]) == (12, 5)
    orders, idle = facts["queues"]
    assert (orders["vhost"], orders["name"], orders["ready"], orders["unacked"]) == ("/", "orders [eu]", 90, 10)
    assert (orders["saturated"], orders["stop_count"], orders["resume_count"]) == (True, 80, 70)
    assert orders["saturated_for"] >= 5
    assert (orders["over_count"], orders["over_count_bound"], orders["over_bytes_bound"]) == (12, 10, 0)
    assert (orders["beyond_count"], orders["beyond_bytes"], orders["lagging"]) == (20, 0, False)
    assert (orders["published_per_second"], orders["full_in"], orders["resumes_in"]) == (0, None, None)
    assert orders["saturated_since"].endswith("+00:00")
    assert (idle["name"], idle["saturated"], idle["saturated_since"], idle["saturated_for"]) == ("idle", False, None, 0)

    print(status_tables.drawn(status.collect(node.data)))
    text = capsys.readouterr().out
    assert "rungs reached by held producers: park 5, pause 4, reject 2, close-channel 1, messages refused 77" in text
    assert "connections refused by limits: 6" in text
    assert f"node on 127.0.0.1:{node.node.port}, pid {node.process.pid}" in text
    assert "│ shard 1      │" in text
    assert "shard 1 holds all its producers: its store is full: 80 of 80 GiB" in text
    (row,) = [line for line in text.splitlines() if "orders [eu]" in line]
    assert "10 KiB" in row
    assert "20 of 10" in row, "no queue that is over its bound is shown as within it"
    answer = re.search(r"saturated for (\d+\.\d) s", row)
    assert answer and float(answer[1]) >= 5


@pytest.mark.broker
def test_limits_that_are_near_are_shown(start_node: StartNode, capsys: pytest.CaptureFixture[str]) -> None:
    node = start_node(limits=LimitSettings(address_connection_rate=1), max_queues=1)
    node.wait_ready()
    print(status_tables.drawn(status.collect(node.data)))
    assert "Limits nearly reached" not in capsys.readouterr().out
    counts = SharedCounts.open(node.node.shared_counts, node.node.counting, 0)
    counts.put(row_name("max-channels", "user", "[red] \udcff"), 9, 10)
    counts.put(row_name("max-connections", "node", ""), 90, 80)
    counts.put(row_name("max-connections", "vhost", "/"), 89, 100)
    ahead = time.monotonic() + 3600
    rate = Rate(row_name("connection-rate", "address", "10.0.0.1"), 1)
    assert SharedRates.open(node.node.shared_rates).acquire([rate], ahead) is None
    with Gauges.open(node.node.gauges) as gauges:
        gauges.queue_open(gauges.shards, 71, "/", "q", 1)
    limits = status.collect(node.data).limits
    assert limits.pop(0)["limit"] == "connection-rate"
    assert limits == [
        {"limit": "max-connections", "whose": "node", "name": "", "used": 90, "number": 80},
        {"limit": "max_queues", "whose": "node", "name": "", "used": 1, "number": 1},
        {"limit": "max-channels", "whose": "user", "name": "[red] \ufffd", "used": 9, "number": 10},
    ]
    print(status_tables.drawn(status.collect(node.data)))
    text = capsys.readouterr().out
    rows = [re.sub(r"[│ ]+", " ", line).strip() for line in text.splitlines() if "max" in line or "-rate" in line]
    assert rows[1:] == [
        "max-connections the node 90 80",
        "max_queues the node 1 1",
        "max-channels user [red] \ufffd 9 10",
    ]
    for number in range(status_tables.SHOWN_MOST):
        counts.put(row_name("max-connections", "address", str(number)), 1, 1)
    print(status_tables.drawn(status.collect(node.data)))
    assert "Limits nearly reached, and 4 more" in capsys.readouterr().out


@pytest.mark.broker
def test_a_node_serves_if_all_processes_do_that_clients_need(start_node: StartNode) -> None:
    node = start_node()
    node.wait_ready()
    assert status.address_of(node.data) == f"127.0.0.1:{node.node.port}"

    def reason() -> str:
        try:
            return "" if status.address_of(node.data) else "no address"
        except status.NotRunning as reason:
            return str(reason)

    said = wait_for(reason, what="the silence of processes that do not beat, as stand-ins do not")
    assert re.fullmatch(r"(router|shard|acceptor) \d has been silent for .* \(\w+\)", said)
    with Gauges.open(node.node.gauges) as gauges:
        gauges.process_write("console", 0, pid=1, incarnation=1, state=STARTING, started_us=0, restarts=0)
        assert not reason().startswith("console"), "clients are served without it"
        gauges.process_write("router", 0, pid=1, incarnation=1, state=STARTING, started_us=0, restarts=0)
    assert reason() == "router 0 is starting"
    node.stop()
    with pytest.raises(status.NotRunning, match="no node runs on"):
        status.address_of(node.data)


def test_a_node_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(status.NotRunning, match=f"no node runs on {tmp_path}/none$"):
        status.collect(tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.broker
def test_a_node_that_was_killed(start_node: StartNode) -> None:
    node = start_node(acceptors=1, shards=1)
    node.wait_ready()
    node.process.kill()
    node.finish()
    with pytest.raises(status.NotRunning, match=rf"\(the last one, pid {node.process.pid}, did not stop cleanly\)$"):
        status.collect(node.data)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (2048, "2 KiB"), (5 << 20, "5 MiB"), (3 << 30, "3.0 GiB")]
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert status_tables.size_cell(size) == text


@pytest.mark.parametrize(
    ("count", "size", "text"), [(0, 0, "-"), (1000, 0, "1,000"), (0, 2048, "2 KiB"), (5, 2048, "5 / 2 KiB")]
)
def test_marks(count: int, size: int, text: str) -> None:
    assert status_tables._mark(count, size) == text


@pytest.mark.broker
def test_a_supervisor_responds_or_not_whatever_the_others_do(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        (router,) = broker.children("router")
        os.kill(router, signal.SIGSTOP)
        wait_for(lambda: broker.penstock("ping").returncode, what="the silence of the router")
        said = broker.penstock("ping", "--supervisor")
        assert (said.returncode, said.stdout) == (0, f"the supervisor responds, pid {broker.pid}\n")
        os.kill(router, signal.SIGCONT)
        os.kill(broker.pid, signal.SIGSTOP)
        wait_for(lambda: broker.penstock("ping", "--supervisor").returncode, what="the silence of the supervisor")
        said = broker.penstock("ping", "--supervisor")
        assert re.fullmatch(r"penstock: supervisor has been silent for .* \(serving\)\n", said.stderr)
        os.kill(broker.pid, signal.SIGCONT)
        wait_for(lambda: broker.penstock("ping").returncode == 0, what="a node that serves again")
    assert broker.penstock("ping", "--supervisor").returncode == 1
