"""Open holds that a killed acceptor leaves to its next incarnation."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptor.holding.open_holds import OpenHolds

HELD = {"kind": "queue", "queue": "q", "victims": [{"connection": "1"}]}


def test_the_next_incarnation_finds_who_was_held_last(tmp_path: Path) -> None:
    holds = OpenHolds(tmp_path, 0)
    assert holds.read() == []
    holds.keep([HELD, HELD])
    holds.keep([HELD])
    assert OpenHolds(tmp_path, 1).read() == []
    later = OpenHolds(tmp_path, 0)
    assert later.read() == [HELD]
    later.keep([])
    assert OpenHolds(tmp_path, 0).read() == []


@pytest.mark.parametrize("content", [b"", b"[", b"5"])
def test_a_file_that_cannot_be_read_costs_what_is_in_it(tmp_path: Path, content: bytes) -> None:
    OpenHolds(tmp_path, 0).keep([HELD])
    (tmp_path / "open_holds" / "acceptor.0.json").write_bytes(content)
    damaged = OpenHolds(tmp_path, 0)
    assert damaged.read() == []
    damaged.keep([HELD])
    assert OpenHolds(tmp_path, 0).read() == [HELD]
