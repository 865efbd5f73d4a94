"""Work on files that may be damaged: it returns a result, fails with one line, and dies without its caller."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from ops.errors import CommandError
from ops.store.apart import apart
from ops.store.check import Findings, check
from shard.contents.errors import DamagedError, StoreError
from tests.ops.store.making import fill


def test_the_result_comes_from_another_process() -> None:
    pid, facts = apart("the store", lambda: (os.getpid(), {"problems": [1, "two"]}))
    assert pid != os.getpid()
    assert facts == {"problems": [1, "two"]}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (StoreError(Path("/data/shards/1"), "it is of format 9"), "/data/shards/1: it is of format 9"),
        (DamagedError(Path("/data/shards/1"), "a record is damaged"), "/data/shards/1: a record is damaged"),
        (CommandError("it has no topology.sqlite"), "it has no topology.sqlite"),
        (PermissionError(13, "Permission denied"), "the store 1: Permission denied"),
    ],
)
def test_errors_of_the_work_are_errors_of_the_command(error: Exception, text: str) -> None:
    def work() -> None:
        raise error

    with pytest.raises(CommandError) as refused:
        apart("the store 1", work)
    assert str(refused.value) == text


@pytest.mark.parametrize("number", [signal.SIGBUS, signal.SIGSEGV])
def test_a_signal_that_ends_the_work_means_damage(number: signal.Signals) -> None:
    with pytest.raises(CommandError) as refused:
        apart("the store 1", lambda: os.kill(os.getpid(), number))
    assert str(refused.value) == f"the store 1 is damaged: reading it ended in {number.name}"


def test_a_bug_in_the_work_is_shown_and_ends_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match=r"^the work on it failed, as said above$"):
        apart("the store 1", lambda: {}["missing"])
    assert "KeyError: 'missing'" in capfd.readouterr().err


def test_a_file_cut_off_ends_the_reader_and_nobody_else(tmp_path: Path) -> None:
    path = fill(tmp_path, 0, {7: 3000})
    with (path / "data.mdb").open("r+b") as file:
        file.truncate(3 * 4096)

    def probe() -> Findings:
        return check(path, 0)

    with pytest.raises(CommandError, match=r"damaged|^/"):
        apart("the store", probe)
