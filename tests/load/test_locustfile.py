from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker import Broker

LOCUSTFILE = Path(__file__).resolve().parents[2] / "load" / "locustfile.py"
RUN_SECONDS = "60"
"""The longest; each run ends when it has received what it needs."""


def locust(url: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Four users: one publisher of each kind and a consumer, unless the arguments say otherwise."""
    command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--host", url, "--headless", "--only-summary"]
    command += ["-u", "4", "-r", "50", "-t", RUN_SECONDS]
    return subprocess.run(
        [*command, *arguments], env=os.environ | environment, capture_output=True, text=True, timeout=100
    )


@pytest.mark.broker
def test_a_good_run_ends_with_0(url: str, queue: str) -> None:
    """Across processes, with settings from arguments and environment: everything is counted once, nothing lost."""
    arguments = ("--queue", queue, "--processes", "2", "--max-depth", "1000000", "--messages", "1000")
    run = locust(url, *arguments, LOAD_SIZE="64", LOAD_BATCH="10")
    assert run.returncode == 0, run.stdout + run.stderr
    for line in ("ok    failures: 0", "ok    lost: 0 of ", "ok    duplicated: 0", "ok    out of order: 0"):
        assert line in run.stdout
    for kind in ("PUBLISH", "CONFIRM", "END-TO-END"):
        assert kind in run.stderr + run.stdout


@pytest.mark.broker
def test_limits_broken_on_purpose_end_with_1(url: str, queue: str) -> None:
    limits = ("--max-depth", "1", "--max-end-to-end-ms", "0.0001", "--min-fairness", "1.1")
    run = locust(url, "--queue", queue, "--consumer-rate", "100", "--messages", "100", *limits)
    assert run.returncode == 1, run.stdout + run.stderr
    failed = [line.removeprefix("FAIL  ") for line in run.stdout.splitlines() if line.startswith("FAIL")]
    assert [line.partition(":")[0] for line in failed] == ["deepest queue", "end to end p99", "fairness"]


@pytest.mark.broker
def test_publishers_are_stopped_and_resumed(broker: Broker, queue: str) -> None:
    """A slow consumer: each kind of publisher is told in its way, no queue overruns its mark, nobody is forgotten."""
    marks = ("--stop-count", "100", "--resume-count", "50", "--max-depth", "300", "--max-resume-seconds", "5")
    slow = ("--consumer-rate", "200", "--prefetch", "10", "--batch", "20", "--messages", "600")
    run = locust(broker.address.url, "--queue", queue, *marks, *slow)
    assert run.returncode == 0, run.stdout + run.stderr
    for counted in ("flow stops", "blocked seconds"):
        assert f"{counted}: " in run.stdout


def test_no_broker_there_is_a_failure() -> None:
    run = locust("amqp://127.0.0.1:9", "-t", "2")
    assert run.returncode == 1
    assert "FAIL  failures" in run.stdout


def test_options_that_cannot_be_end_with_2() -> None:
    run = locust("amqp://127.0.0.1:9", "--size", "1")
    assert run.returncode == 2
    assert "--size must be at least 16" in run.stderr
