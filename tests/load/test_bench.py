from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median

import pytest

from load.bench import CPU, Options, Row, describe, measure
from load.target import Target
from tests.broker import Broker


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "load.bench", *arguments], capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize(("of_runs", "result", "ratio"), [(median, (10.0, 20.0), 2.0), (max, (100.0, 50.0), 0.5)])
def test_brokers_are_measured_in_turn_and_compared(
    of_runs: Callable[[list[float]], float], result: tuple[float, float], ratio: float
) -> None:
    figures = iter([10.0, 20.0, 50.0, 100.0, 1.0, 3.0])
    asked = []

    def run(target: Target, _pid: int | None, _options: Options) -> dict[str, float]:
        asked.append(target.port)
        return {"speed": next(figures)}

    brokers: dict[str, tuple[Target, int | None]] = {"a": (Target(port=1), None), "b": (Target(port=2), None)}
    row = Row("speed", True, of_runs, needs_pid=False, run=run)
    measured = measure(row, brokers, Options(1.0, 1, 1), runs=3)
    assert asked == [1, 2, 2, 1, 1, 2]
    assert measured["result"] == dict(zip("ab", result, strict=True))
    assert measured["ratio"] == ratio


def test_pairs_have_intervals_for_their_figure_and_for_processor_time() -> None:
    drift = {1: count(), 2: count()}

    def run(target: Target, pid: int | None, _options: Options) -> dict[str, float]:
        speed, spent = (10.0, 2.0) if target.port == 1 else (30.0, 1.0)
        return {"speed": speed + next(drift[target.port]), CPU: spent}

    brokers: dict[str, tuple[Target, int | None]] = {"a": (Target(port=1), 1), "b": (Target(port=2), 2)}
    measured = measure(Row("speed", True, median, needs_pid=False, run=run), brokers, Options(1.0, 1, 1), runs=6)
    assert measured["cpu_pairs"] == {"median": 0.5, "low": 0.5, "high": 0.5, "pairs": 6}
    assert measured["pairs"]["low"] == 35 / 15 and measured["pairs"]["high"] == 30 / 10
    assert "by pairs 2.60 (2.33 to 3.00), processor time by pairs 0.50 (0.50 to 0.50)" in describe("row", measured)


@pytest.mark.broker
def test_rows_of_every_kind_against_a_broker(broker: Broker, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    where = (
        "--a",
        broker.address.url,
        "--a-pid",
        str(broker.pid),
        "--b",
        broker.address.url,
        "--b-pid",
        str(broker.pid),
    )
    rows = ("churn", "idle", "node", "redeclare", "lone", "ack", "durable", "fanout", "backlog", "latency-p99")
    done = bench(
        *rows,
        *where,
        "--runs",
        "1",
        "--seconds",
        "0.5",
        "--concurrency",
        "2",
        "--connections",
        "50",
        "--json",
        str(report),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(report.read_text())
    assert found["churn"]["a"][0]["connections"] > 0
    assert found["churn"]["ratio"] > 0
    assert found["churn"]["b"][0]["p99_ms"] >= found["churn"]["b"][0]["p50_ms"] > 0
    assert found["idle"]["a"][0]["connections"] == 50
    assert found["idle"]["a"][0]["open_mib"] > 1
    assert found["node"]["a"][0]["memory_mib"] > 1
    assert found["redeclare"]["a"][0]["declarations"] > 0
    assert found["redeclare"]["result"]["a"] > 0 and found["lone"]["result"]["a"] > 0
    for name in ("ack", "durable", "fanout", "backlog", "latency-p99"):
        assert found[name]["ratio"] > 0 and found[name]["a"][0]["cpu_us_per_message"] > 0
    assert 0 < found["latency-p99"]["a"][0]["p50_ms"] <= found["latency-p99"]["a"][0]["max_ms"]
    assert all(name in done.stdout for name in rows)


@pytest.mark.broker
def test_rows_with_clients_in_c(broker: Broker, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    rows = ("ack", "durable", "fanout", "writers", "backlog", "latency-p99")
    where = ("--a", broker.address.url, "--a-pid", str(broker.pid))
    done = bench(*rows, *where, "--client", "c", "--runs", "1", "--seconds", "0.5", "--json", str(report))
    assert done.returncode == 0, done.stderr
    found = {name: row["a"][0] for name, row in json.loads(report.read_text()).items()}
    assert all(found[name]["messages"] > 0 and found[name]["cpu_us_per_message"] > 0 for name in rows)
    assert 0 < found["latency-p99"]["p50_ms"] <= found["latency-p99"]["p99_ms"] <= found["latency-p99"]["max_ms"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nosuchrow"], "nosuchrow"),
        (["idle", "--a", "amqp://127.0.0.1:9"], "process id"),
        (["lone", "--a", "amqp://127.0.0.1:9"], "process id"),
        (["churn", "--a", "http://127.0.0.1"], "amqp://"),
        (["churn", "--a", "amqp://127.0.0.1:9", "--seconds", "0.1", "--concurrency", "1"], "127.0.0.1:9"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_2(arguments: list[str], named: str) -> None:
    done = bench(*arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1
