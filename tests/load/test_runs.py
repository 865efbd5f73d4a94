"""Whole runs of Locust across processes, as users have them: every pattern, scenarios, limits, another broker."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.differential import rabbitmq
from tests.load.locusting import held, locust, verdict
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(300)]

ALWAYS = ["failures", "messages received", "lost", "duplicated", "out of order"]
PACE = ("-r", "50", "--processes", "2", "--batch", "20", "--prefetch", "20", "--burst", "200")
MARKS = ("--stop-count", "500", "--resume-count", "300")
LIMITS = ("--max-resume-seconds", "5", "--min-fairness", "0.5", "--min-rate", "20", "--max-end-to-end-ms", "60000")
CHECKED = ["stopped with room again", "end to end p99", "fairness", "rate"]
PATTERNS = ("work-queue", "bursty", "slow-consumer", "churn", "pub-sub", "rpc", "celery")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_keeps_within_its_limits(url: str, queue: str, pattern: str) -> None:
    arguments = ("--pattern", pattern, "-u", "12", "-t", "15", "--publish-rate", "300", "--slow-subscribers", "1")
    run = locust(url, "--queue", queue, *PACE, *arguments, *MARKS, *LIMITS)
    assert run.returncode == 0, run.stdout + run.stderr
    assert verdict(run, "ok") == [*ALWAYS, *CHECKED]


@pytest.fixture(scope="module")
def outage(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which the consumers went away for some time. Its queue was never much deeper than its stop mark: each of
    nine publishers had no more than its batch in flight.
    """
    files = tmp_path_factory.mktemp("outage") / "run"
    arguments = ("--scenario", "outage", "-u", "12", "--consumers", "3", "--consumer-rate", "300", "-t", "30")
    reports = ("--html", f"{files}.html", "--csv", str(files))
    limits = (*MARKS, *LIMITS, "--max-depth", "680")
    run = locust(broker.address.url, "--queue", "outage", *PACE, *arguments, *limits, *reports)
    assert run.returncode == 0, run.stdout + run.stderr
    assert verdict(run, "ok") == [*ALWAYS, "deepest queue", *CHECKED]
    return files


def test_consumers_that_went_away_hold_publishers_and_nobody_is_forgotten(outage: Path) -> None:
    figures = held(outage)
    for user, times in (("ObeyingPublisher", "flow_stops"), ("BlockedAwarePublisher", "blocked")):
        assert figures[user][times] > 0
    assert figures["all"]["longest_seconds"] > 5  # they were away for 7.5 s


def test_a_browser_shows_the_report(outage: Path, tmp_path: Path) -> None:
    """Our part and Locust's are drawn without anything from elsewhere."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium here")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    offline = ["--proxy-server=127.0.0.1:9", "--virtual-time-budget=8000", "--dump-dom"]
    shown = subprocess.run(
        [*command, *offline, f"file://{outage}.html"], capture_output=True, text=True, timeout=5 * PATIENCE, check=True
    ).stdout
    for text in ("Messages and flow control", "Verdict", "deepest queue", "ObeyingPublisher", "</polyline>"):
        assert text in shown
    for text in ("Request Statistics", "END-TO-END", "Final ratio"):  # drawn by Locust's script
        assert text in shown.rpartition("</head>")[2]


@pytest.mark.parametrize("scenario", ["ramp", "spike", "waves", "steps"])
def test_users_come_and_go(url: str, queue: str, scenario: str) -> None:
    run = locust(url, "--queue", queue, *PACE, "--scenario", scenario, "-u", "10", "-t", "16", "--publish-rate", "200")
    assert run.returncode == 0, run.stdout + run.stderr
    users = [int(each) for each in re.findall(r"Shape test updating to (\d+) users", run.stderr)]
    assert max(users) == 10 and min(users) < 5
    if scenario in ("ramp", "steps"):
        assert users == sorted(users)


def test_a_limit_that_is_passed_on_purpose_fails_the_run(url: str, queue: str) -> None:
    arguments = ("-u", "6", "--consumer-rate", "100", "-t", "10", "--max-depth", "100")
    run = locust(url, "--queue", queue, *PACE, *arguments, *MARKS)
    assert run.returncode == 1, run.stdout + run.stderr
    assert verdict(run, "FAIL") == ["deepest queue"]
    assert verdict(run, "ok") == ALWAYS


def test_another_broker_takes_the_same_load(tmp_path: Path) -> None:
    """Debian's RabbitMQ takes every pattern at once and keeps the same promises."""
    with rabbitmq.serve(tmp_path) as address:
        arguments = ("--pattern", ",".join(PATTERNS), "-u", "26", "-t", "20", "--publish-rate", "100", *PACE)
        run = locust(address.url, "--queue", "load", *arguments, "--min-rate", "20")
    assert run.returncode == 0, run.stdout + run.stderr
    assert verdict(run, "ok") == [*ALWAYS, "rate"]
