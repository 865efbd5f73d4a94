"""The data directory of a running node: no other user can read it, and no second node can start on it."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker import Broker
from tests.broker.process import ROOT, WITHOUT_HTTP
from tests.outcomes import Confirms
from tests.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("penstock_only")]


def refused(data: Path) -> list[str]:
    """Return the error output of a start on a data directory. AssertionError unless it ends with exit status 2."""
    command = [sys.executable, "-m", "ops", "serve", "--port", "0", "--data", str(data), *WITHOUT_HTTP]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.splitlines()


def test_nobody_else_reads_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "telemetry").mkdir(parents=True)
    (data / "telemetry" / "old").touch()
    for path in (data, data / "telemetry", data / "telemetry" / "old"):
        path.chmod(0o777 if path.is_dir() else 0o666)
    data.chmod(0o755)
    with Broker(tmp_path, "telemetry.enabled=true", by=("sh", "-c", 'umask 000; exec "$@"', "sh")) as broker:
        with broker.connect() as client:
            channel = client.channel()
            channel.call("queue.declare", queue="q", durable=True)
            confirms = Confirms(channel)
            confirms.publish(b"x", "q", delivery_mode=2)
            confirms.wait()
        assert broker.penstock("vhost", "add", "v").returncode == 0
        wait_for(lambda: [path for path in (data / "telemetry").rglob("*") if path.suffix], what="telemetry")
        assert not open_to_others(data)
    assert not open_to_others(data)


def open_to_others(data: Path) -> list[str]:
    found = []
    for path in (data, *data.rglob("*")):
        try:
            mode = stat.S_IMODE(path.lstat().st_mode)
        except FileNotFoundError:  # finished meanwhile
            continue
        if mode != (0o700 if path.is_dir() else 0o600):
            found.append(f"{path}: {mode:o}")
    return found


def test_no_second_node_though_the_lock_file_is_deleted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Broker(tmp_path) as broker:
        os.unlink(data / "lock")
        for _ in range(2):
            assert refused(data) == [
                f"penstock: the data directory {data} is in use by another broker (pid {broker.pid})"
            ]
        with broker.connect() as client:
            client.channel().call("queue.declare", queue="q")
        assert broker.penstock("queue", "list").returncode == 0


def newer(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 1000")
    database.close()


def foreign(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE songs (name)")
    database.close()


def garbage(path: Path) -> None:
    path.write_bytes(b"no database at all, whatever its name is" * 100)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (newer, "is of a newer penstock: of format 1000, this one knows up to "),
        (foreign, "is not a topology of penstock"),
        (garbage, "file is not a database"),
    ],
)
def test_a_topology_that_cannot_be_used_is_told_in_one_line(tmp_path: Path, spoil: object, said: str) -> None:
    assert callable(spoil)
    with Broker(tmp_path):
        pass
    spoil(tmp_path / "data" / "topology.sqlite")
    (line,) = refused(tmp_path / "data")
    assert line.startswith("penstock: ") and said in line and str(tmp_path / "data" / "topology.sqlite") in line
