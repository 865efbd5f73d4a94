"""The audit trail of administrators' actions: author, action, time, origin and result."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from penstock.files.record_file import read_records, records_path
from penstock.node.node import Role
from tests.broker import Broker
from tests.waiting import wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def test_audit(tmp_path: Path) -> None:
    def records(role: Role) -> list[dict[str, Any]]:
        return list(read_records(records_path(tmp_path / "data", "audit", role, 0)))

    with Broker(tmp_path) as broker:
        assert broker.penstock("user", "add", "bob", "--tag", "monitoring", given="a secret word\n").returncode == 0
        assert broker.penstock("user", "list").returncode == 0
        assert broker.penstock("vhost", "delete", "missing").returncode == 2
        assert broker.penstock("restart", "acceptors").returncode == 0
        added, refused, restarted = records("router")
        assert added["command"] == "user_add"
        assert added["arguments"] == {"name": "bob", "password_hash": "…", "tags": ["monitoring"]}
        assert (added["who"]["uid"], added["outcome"]) == (os.getuid(), "done")
        assert added["from"]["pid"] > 1 and added["from"]["program"]
        assert (refused["command"], refused["arguments"]) == ("vhost_delete", {"name": "missing"})
        assert refused["outcome"] == "refused: there is no vhost 'missing'"
        assert restarted["command"] == "acceptors_restart"
        os.kill(broker.pid, signal.SIGHUP)
        wait_for(lambda: len(records("supervisor")) == 2, what="a record of the configuration read again")
    assert [record["command"] for record in records("supervisor")] == ["serve", "reload", "stop"]
