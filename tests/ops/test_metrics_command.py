"""`penstock metrics` of a running node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from tests.broker import Broker
from tests.raw import Client

pytestmark = pytest.mark.broker


def test_the_metrics_of_a_node_pass_the_check_of_prometheus(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Client.connect(broker.address) as client:
        client.channel().call("queue.declare", queue="orders", arguments={"x-flow-stop-count": 5})
        printed = broker.penstock("metrics", "--per-queue")
        assert printed.returncode == 0, printed.stderr
        found = {family.name: family.samples for family in parse(printed.stdout)}
        assert [sample.value for sample in found["rabbitmq_queues"]] == [1]
        assert {sample.labels["role"] for sample in found["penstock_process_up"]} >= {"router", "shard", "acceptor"}
        assert all(sample.value == 1 for sample in found["penstock_process_up"])
        assert found["penstock_queue_mark_messages"][0].labels["queue"] == "orders"
        promtool = shutil.which("promtool")
        if promtool is not None:
            checked = subprocess.run(
                [promtool, "check", "metrics"], input=printed.stdout, capture_output=True, text=True, check=False
            )
            assert checked.returncode == 0, checked.stderr
    stopped = broker.penstock("metrics")
    assert (stopped.returncode, stopped.stdout) == (1, "") and "no node runs" in stopped.stderr
