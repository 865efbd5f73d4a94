from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.load.locusting import held, locust, verdict
from tests.router.making import rabbit_hash

pytestmark = pytest.mark.long

SECRET = "dont-print&this-either"
"""HTML and JSON within HTML write the & differently."""
ALL_IS_WELL = ["failures", "messages received", "lost", "duplicated", "out of order"]


@pytest.mark.broker
def test_a_good_run_ends_with_0(url: str, queue: str) -> None:
    """Across processes, with settings from arguments and environment: everything is counted once, nothing lost."""
    arguments = ("--queue", queue, "--processes", "2", "--max-depth", "1000000", "--messages", "1000")
    run = locust(url, *arguments, LOAD_SIZE="64", LOAD_BATCH="10")
    assert run.returncode == 0, run.stdout + run.stderr
    assert verdict(run, "ok") == [*ALL_IS_WELL, "deepest queue"]
    for kind in ("CONNECT", "PUBLISH", "CONFIRM", "END-TO-END"):
        assert kind in run.stderr + run.stdout


@pytest.mark.broker
def test_limits_broken_on_purpose_end_with_1(url: str, queue: str) -> None:
    limits = ("--max-depth", "1", "--max-end-to-end-ms", "0.0001", "--min-fairness", "1.1", "--min-rate", "1e9")
    run = locust(url, "--queue", queue, "--consumer-rate", "100", "--messages", "400", *limits)
    assert run.returncode == 1, run.stdout + run.stderr
    assert verdict(run, "ok") == ALL_IS_WELL
    assert verdict(run, "FAIL") == ["deepest queue", "end to end p99", "fairness", "rate"]


@pytest.mark.broker
def test_publishers_are_stopped_and_resumed(broker: Broker, queue: str, tmp_path: Path) -> None:
    """With a slow consumer each kind of publisher stops in its way, no queue overruns its mark, none is forgotten."""
    marks = ("--stop-count", "100", "--resume-count", "50", "--max-depth", "300", "--max-resume-seconds", "60")
    slow = ("--pattern", "slow-consumer", "--slow-rate", "200", "--prefetch", "10", "--batch", "20")
    files = ("--csv", str(tmp_path / "run"), "--html", str(tmp_path / "run.html"))
    user = f"load-{queue}"
    broker.call("user_add", name=user, password_hash=rabbit_hash(SECRET), tags=[])
    broker.call("permission_set", user=user, vhost="/", configure=".*", write=".*", read=".*")
    url = broker.address.url.replace("://guest:guest@", f"://{user}:{SECRET}@")
    run = locust(url, "--queue", queue, "--messages", "600", *marks, *slow, *files)
    assert run.returncode == 0, run.stdout + run.stderr
    figures = held(tmp_path / "run")
    assert figures.keys() == {"BlockedAwarePublisher", "IgnoringPublisher", "ObeyingPublisher", "all"}
    assert figures["ObeyingPublisher"]["flow_stops"] > 0 and figures["ObeyingPublisher"]["flow_seconds"] > 0
    assert figures["BlockedAwarePublisher"]["blocked"] > 0 and figures["BlockedAwarePublisher"]["blocked_seconds"] > 0
    assert figures["all"]["confirms_seconds"] > 0
    page = (tmp_path / "run.html").read_text()
    assert page.count("<section class='load'>") == 1
    assert "stopped with room again" in page and "<svg" in page
    assert f"amqp://{user}:***@" in page
    written = [file.read_text() for file in tmp_path.iterdir()]
    assert len(written) >= 5
    for text in (*written, run.stdout, run.stderr):
        assert not any(part in text for part in SECRET.split("&"))
    assert "<path class='unacked'" in page


@pytest.mark.broker
def test_patterns_side_by_side(url: str, queue: str) -> None:
    """Every kind of user, in one run: publishes arrive, at every subscriber, and calls are answered."""
    patterns = ("--pattern", "work-queue,bursty,slow-consumer,churn,pub-sub,rpc,celery", "-u", "26")
    pace = ("--burst", "50", "--batch", "20", "--publish-rate", "100", "--slow-subscribers", "1", "--messages", "4000")
    run = locust(url, "--queue", queue, *patterns, *pace)
    assert run.returncode == 0, run.stdout + run.stderr
    assert verdict(run, "ok") == ALL_IS_WELL
    summary = run.stdout + run.stderr
    for row in ("CALL     {}.requests", "TASK     {}.tasks", "PUBLISH  {}.fanout", "PUBLISH  {} "):
        assert row.format(queue) in summary


def test_no_broker_there_is_a_failure() -> None:
    run = locust("amqp://127.0.0.1:9", "-t", "2")
    assert run.returncode == 1
    assert "failures" in verdict(run, "FAIL")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--size", "1"), "--size must be at least 16"),
        (("--pattern", "pub-sub,sub-pub"), "--pattern must be of work-queue, bursty"),
        (("--scenario", "flood"), "--scenario must be one of constant, ramp"),
        (("-u", "2", "--consumers", "2"), "-u 2 leaves no user to publish: 2 of them consume"),
        (
            ("--stop-count", "100", "--resume-count", "50", "--max-resume-seconds", "1"),
            "--max-resume-seconds needs a --resume-count of 200 or more",
        ),
    ],
)
def test_options_that_cannot_be_end_with_2(arguments: tuple[str, ...], text: str) -> None:
    run = locust("amqp://127.0.0.1:9", *arguments)
    assert run.returncode == 2
    assert text in run.stderr


def test_the_patterns_that_options_name_are_those_there_are() -> None:
    program = "import load.users, load.options; assert tuple(load.users.PATTERNS) == load.options.PATTERNS"
    subprocess.run([sys.executable, "-c", program], check=True)
