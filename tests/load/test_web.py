"""Locust's web UI, asked as a browser asks it."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from tests.broker import Broker
from tests.load.locusting import COMMAND
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.broker


@contextmanager
def served(log: Path, url: str, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run Locust with its UI on a free port; yield its address and its process."""
    port = free_port()
    command = [*COMMAND, "--host", url, "--web-host", "127.0.0.1", "--web-port", str(port), *arguments]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(lambda: answers(address), 2 * PATIENCE, "the UI")
        yield address, process
    finally:
        process.kill()
        process.wait()


def answers(address: str) -> bool:
    with suppress(URLError, OSError):
        return bool(get(f"{address}/"))
    return False


def get(address: str, form: dict[str, object] | None = None) -> str:
    data = urlencode(form).encode() if form else None
    with urlopen(address, data, timeout=PATIENCE) as answer:
        return str(answer.read().decode())


def swarm(address: str, **form: object) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(get(f"{address}/swarm", {"user_count": 4, "spawn_rate": 50, **form}))
    return answer


def figures(address: str) -> dict[str, dict[str, Any]]:
    """Return the rows of the tab, by class of user, as the UI polls them."""
    (table,) = json.loads(get(f"{address}/stats/requests"))["extended_stats"]
    return {row["user"]: row for row in table["data"]}


def test_a_form_a_tab_and_a_report(broker: Broker, queue: str, tmp_path: Path) -> None:
    """An impossible setting is refused, others are used; the tab shows stops; Ctrl-C brings the verdict."""
    log = tmp_path / "locust.log"
    arguments = ("--queue", queue, "--stop-count", "100", "--resume-count", "50", "--batch", "20", "--prefetch", "20")
    with served(log, broker.address.url, *arguments) as (address, process):
        page = get(f"{address}/")
        for text in ("Flow control", "stop_count", "max_depth"):
            assert text in page
        refused = swarm(address, size=15)
        assert not refused["success"]
        assert "--size must be at least 16" in refused["message"]
        assert swarm(address, consumer_rate=200)["success"]
        wait_for(lambda: stopped(address), PATIENCE, "a stop in the table")
        assert "<section class='load'>" in get(f"{address}/stats/report")
        for path in ("stats/report?download=1", "stats/requests/csv"):
            with urlopen(f"{address}/{path}", timeout=PATIENCE) as download:
                assert "amqp://guest:***@" in download.headers["Content-Disposition"]
                assert "guest:guest" not in download.read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(2 * PATIENCE) == 0, log.read_text()
    found = log.read_text()
    assert "ok    lost: 0 of" in found and "FAIL" not in found


def stopped(address: str) -> bool:
    rows = figures(address)
    if not {"ObeyingPublisher", "all"} <= rows.keys():  # there is a sum once several classes have published
        return False
    return bool(rows["ObeyingPublisher"]["flow_stops"] > 0 and rows["all"]["blocked"] > 0)
