"""The files between operators and the balancer."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.errors import CommandError
from ops.rebalance.automatic import Pause, PauseFile, Said, said, said_file


def test_a_pause_lasts_until_it_is_removed(tmp_path: Path) -> None:
    file = PauseFile(tmp_path)
    assert file.read() is None
    assert not file.remove()
    for pause in (Pause("ann"), Pause("bob", 1.5)):
        file.write(pause)
        assert PauseFile(tmp_path).read() == pause
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.remove()
    assert file.read() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"by": "ann"}', '{"by": "ann", "until": "soon"}'])
def test_a_pause_that_cannot_be_read_is_an_error(tmp_path: Path, text: str) -> None:
    file = PauseFile(tmp_path)
    file.write(Pause("ann"))
    file.path.write_text(text)
    with pytest.raises(CommandError, match=f"^cannot read {file.path}: .*; `penstock rebalance resume` removes it$"):
        file.read()
    assert file.remove()


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "rebalance").touch()
    with pytest.raises(CommandError, match="cannot write"):
        PauseFile(tmp_path).write(Pause("ann"))


def test_what_was_said_last_is_read(tmp_path: Path) -> None:
    assert said(tmp_path) is None
    file = said_file(tmp_path)
    for why in ("first", "last"):
        file.keep([Said("idle", why, 1.0, None)._asdict()])
    assert said(tmp_path) == Said("idle", "last", 1.0, None)
    file.path.write_text("[{}]")
    assert said(tmp_path) is None
