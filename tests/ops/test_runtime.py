"""The location of the runtime directory."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from ops.errors import StartError
from ops.runtime import LONGEST_NAME, SOCKET_PATH_MAX, runtime_directory
from penstock.node.node import Node
from penstock.settings import Settings


def test_private_short_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        monkeypatch.setenv("XDG_RUNTIME_DIR", base)
        with runtime_directory() as path:
            assert path.parent == Path(base)
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
            (path / "left").touch()
        assert list(Path(base).iterdir()) == []


@pytest.mark.parametrize("name", ["x" * 80, "missing/one"])
def test_a_place_that_will_not_do_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    long = tmp_path / name
    if "/" not in name:
        long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with runtime_directory() as path:
        assert path.parent != long
        assert len(bytes(path)) + LONGEST_NAME <= SOCKET_PATH_MAX
    assert not long.exists() or list(long.iterdir()) == []


def test_no_writable_place_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "missing")])
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        monkeypatch.setenv("XDG_RUNTIME_DIR", base)
        with runtime_directory() as path:
            assert path.parent == Path(base)
    with pytest.raises(StartError, match="no place for a runtime directory"), runtime_directory():
        pass


def test_the_longest_socket_name_is_allowed_for() -> None:
    node = Node(0, Path("/r"), Path("/g"), "127.0.0.1", 5672, Settings(), 0)
    names = [
        node.router_requests,
        node.router_changes,
        node.process_events,
        node.process_reports,
        f"ipc://{node.shard(255, 10**9)}",
        f"ipc://{node.control_of('acceptor', 255, 10**9)}",
    ]
    assert max(len(name.removeprefix("ipc:///r")) for name in names) <= LONGEST_NAME
