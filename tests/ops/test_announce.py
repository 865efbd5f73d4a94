"""The announcement that a node serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops import serve
from ops.notify import Notifier
from ops.store import identity
from ops.store.recognition import Standing
from penstock.node.node import Node
from penstock.settings import Settings


def test_a_disk_without_room_for_the_list_of_runs_is_no_reason_not_to_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def is_full(data: Path, known: identity.Identity) -> None:
        raise OSError(28, "No space left on device", str(data))

    monkeypatch.setattr(identity, "store", is_full)
    settings = Settings(data=tmp_path, shards=1, acceptors=1)
    node = Node(1, tmp_path, tmp_path / "gauges", "127.0.0.1", 5672, settings, 0)
    serve._announce(node, Standing(tmp_path), Notifier({}))
    assert "penstock ready amqp=127.0.0.1:5672 " in capsys.readouterr().out
