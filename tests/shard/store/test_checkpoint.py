"""First pages recorded beside an environment: after a power cut they restore a state that was flushed whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

import lmdb
import pytest

from shard.store.checkpoint import NAME, STRIDE, Checkpoint
from shard.store.environment import FILE_NAME
from shard.store.store import Store

pytestmark = pytest.mark.long

LIMIT = 1 << 20


def test_a_record_cut_short_leaves_the_one_before(tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path)):
        pass
    pages = (tmp_path / "data.mdb").read_bytes()[:8192]
    checkpoint = Checkpoint(tmp_path)
    checkpoint.restore()
    checkpoint.record(pages)
    checkpoint.record(b"x" * 8192)
    with (tmp_path / NAME).open("r+b") as file:
        file.write(b"y" * 100)  # the second record is first in the file
        assert (tmp_path / NAME).stat().st_size > STRIDE
    later = Checkpoint(tmp_path)
    later.boot = b"another"
    with (tmp_path / "data.mdb").open("r+b") as file:
        file.write(b"z" * 8192)
    later.restore()
    assert (tmp_path / "data.mdb").read_bytes()[:8192] == pages


def test_a_store_that_ended_in_order_needs_none(tmp_path: Path) -> None:
    store = Store(tmp_path, LIMIT, durable=False, epoch=1)
    assert notes_something(tmp_path)
    store.end()
    assert not notes_something(tmp_path)


def notes_something(path: Path) -> bool:
    """Return whether the next boot would restore the recorded pages."""
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    with (copy / FILE_NAME).open("r+b") as file:
        file.write(b"changed")
    later = Checkpoint(copy)
    later.boot = b"another"
    later.restore()
    changed = (copy / FILE_NAME).read_bytes().startswith(b"changed")
    shutil.rmtree(copy)
    return not changed


def test_a_store_that_flushes_each_commit_puts_an_end_to_it(tmp_path: Path) -> None:
    Store(tmp_path, LIMIT, durable=False, epoch=1).close()
    Store(tmp_path, LIMIT, durable=True, epoch=2).close()
    assert not notes_something(tmp_path)


def test_a_checkpoint_without_its_environment_is_forgotten(tmp_path: Path) -> None:
    Store(tmp_path, LIMIT, durable=False, epoch=1).close()
    (tmp_path / "data.mdb").unlink()
    later = Checkpoint(tmp_path)
    later.boot = b"another"
    later.restore()
    assert not (tmp_path / NAME).exists()


def noted(path: Path, times: int) -> tuple[Checkpoint, bytes]:
    """Return a checkpoint beside an environment, recorded `times` times with other pages, and the last pages."""
    with lmdb.open(str(path)):
        pass
    checkpoint = Checkpoint(path)
    checkpoint.restore()
    pages = b""
    for number in range(times):
        pages = b"%d" % number * 8192
        checkpoint.record(pages)
    return checkpoint, pages


def courses(path: Path, work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> set[bytes]:
    """Return what a power cut may leave of the file that `work` writes: any of the unflushed writes, at any time."""
    content = path.read_bytes()
    unflushed: list[tuple[int, bytes]] = []
    states = {content}
    write, sync = os.pwrite, os.fsync

    def pwrite(file: int, data: bytes, at: int) -> int:
        unflushed.append((at, data))
        for chosen in product((True, False), repeat=len(unflushed)):
            states.add(after(each for each, kept in zip(unflushed, chosen, strict=True) if kept))
        return write(file, data, at)

    def fsync(file: int) -> None:
        nonlocal content
        content = after(unflushed)
        unflushed.clear()
        sync(file)

    def after(writes: Iterable[tuple[int, bytes]]) -> bytes:
        changed = bytearray(content)
        for at, data in writes:
            changed[at : at + len(data)] = data
        return bytes(changed)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        patch.setattr(os, "fsync", fsync)
        patch.setattr(os, "fdatasync", lambda file: None)  # of the environment
        work()
    assert len(states) > 1
    return states


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_cut_while_it_is_dismissed_leaves_the_newest_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    checkpoint, newest = noted(tmp_path, times)
    states = courses(tmp_path / NAME, checkpoint.dismiss, monkeypatch)
    assert not notes_something(tmp_path)
    for content in states:
        (tmp_path / NAME).write_bytes(content)
        (tmp_path / FILE_NAME).write_bytes(b"z" * 8192)
        later = Checkpoint(tmp_path)
        later.boot = b"another"
        later.restore()
        assert (tmp_path / FILE_NAME).read_bytes() in (newest, b"z" * 8192)


def test_a_record_cut_short_is_dismissed_too(tmp_path: Path) -> None:
    checkpoint, _ = noted(tmp_path, 2)
    with (tmp_path / NAME).open("r+b") as file:
        file.write(b"y" * 100)  # the newer one
    checkpoint.dismiss()
    assert not notes_something(tmp_path)
