"""The reload of a running node's configuration: live settings reach the node file, others are only logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from ops.reload import Reload
from penstock.control.audit import Audit
from penstock.files.record_file import read_records, records_path
from penstock.node.node import Node
from penstock.settings import Settings
from penstock.settings.sources import read_configuration


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    """Restore the log level afterwards, whatever a reload sets."""
    before, number = structlog.get_config(), logging.getLogger().level
    yield
    structlog.configure(**before)
    logging.getLogger().setLevel(number)


class Running:
    """A node of one configuration, and the assignments that its next reload finds."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.assignments: list[str] = []
        configuration = read_configuration(None, {"data": directory}, ["log_level=info", "acceptors=1", "shards=1"])
        self.node = Node(1, directory, directory / "g", "h", 1, configuration.settings, clock_ahead_us=0)
        self.node.store()
        self.reload = Reload(self.node, configuration, self.read, Audit(directory, "supervisor", 0))

    def read(self) -> Any:
        return read_configuration(None, {"data": self.directory}, self.assignments)

    def reloaded(self, *assignments: str) -> tuple[Settings | None, list[Any]]:
        self.assignments = ["acceptors=1", "shards=1", *assignments]
        with capture_logs() as logs:
            done = self.reload.reload()
        return done, logs

    @property
    def level(self) -> str:
        return Node.load(self.directory).settings.log_level

    def audited(self) -> list[tuple[Any, str]]:
        records = read_records(records_path(self.directory, "audit", "supervisor", 0))
        return [(each["arguments"], each["outcome"]) for each in records]


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(tmp_path)


def test_a_live_setting_reaches_the_node_file(running: Running) -> None:
    done, (line,) = running.reloaded("log_level=warning")
    assert done and done.log_level == running.level == "warning"
    assert (line["event"], line["changed"]) == ("configuration reloaded", {"log_level": "warning"})
    assert running.audited() == [({"changed": {"log_level": "warning"}}, "done")]
    assert logging.getLogger().level == logging.WARNING
    _, (line,) = running.reloaded("log_level=warning")
    assert line["changed"] == {}, "the next reload compares with this one"


def test_relays_reach_the_node_file_and_the_caller(running: Running) -> None:
    words = ("relays.orders.queue=a", "relays.orders.target_queue=b")
    done, (line,) = running.reloaded(*words)
    assert done is not None and [*done.relays] == ["orders"]
    assert Node.load(running.directory).settings.relays == done.relays
    assert line["changed"] == {"relays.orders.queue": "a", "relays.orders.target_queue": "b"}
    done, (line,) = running.reloaded()
    assert done is not None and done.relays == {}
    assert line["changed"] == {"relays.orders.queue": None, "relays.orders.target_queue": None}


def test_other_settings_are_logged_and_stay(running: Running) -> None:
    for _ in range(2):
        done, (first, second) = running.reloaded("log_level=info", "max_queues=77")
        assert done and first["changed"] == {}
        assert (second["setting"], second["configured"], second["origin"]) == ("max_queues", 77, "by --set")
        assert Node.load(running.directory).settings == running.node.settings


def test_an_invalid_configuration_changes_nothing(running: Running) -> None:
    done, (line,) = running.reloaded("log_level=loud")
    assert done is None and running.level == "info"
    assert line["event"] == "invalid configuration, nothing changes" and "log_level" in line["problem"]
    assert running.audited() == [({}, f"refused: {line['problem']}")]
    done, _ = running.reloaded("log_level=debug")
    assert done and running.level == "debug"


def test_a_node_file_that_cannot_be_written_changes_nothing(running: Running) -> None:
    (running.directory / "node.json.new").mkdir()
    done, (line,) = running.reloaded("log_level=debug")
    assert done is None and running.level == "info"
    assert line["event"] == "cannot reload the configuration, nothing changes"
    assert logging.getLogger().level != logging.DEBUG
