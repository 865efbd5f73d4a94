"""Buffers that are held: where they are as long as the batch that reads them lives."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tests.twins import load_compiled

BATCH = load_compiled("penstock.batch.batch_cy")


def made() -> Any:
    builder = BATCH.BatchBuilder()
    builder.add(b"address", b"header", b"body", 0)
    return builder.finish()


def test_a_buffer_cannot_be_resized_while_a_batch_reads_it() -> None:
    batch = made()
    entries, contents = batch.entries, batch.contents
    for held in entries, contents:
        with pytest.raises(BufferError):
            held.extend(b"more")
    del batch
    for held in entries, contents:
        held.extend(b"more")


def test_a_buffer_lives_as_long_as_its_batch_and_no_longer() -> None:
    contents = bytes(made().contents)
    before = sys.getrefcount(contents)
    batch = BATCH.Batch(made().entries, memoryview(contents))
    assert sys.getrefcount(contents) > before and batch.record(0) == (b"address", b"header", b"body")
    del batch
    assert sys.getrefcount(contents) == before


@pytest.mark.parametrize("contents", [None, 1, "text", []])
def test_what_has_no_buffer_is_refused(contents: Any) -> None:
    with pytest.raises(TypeError):
        BATCH.Batch(made().entries, contents)


def test_a_buffer_with_gaps_is_refused() -> None:
    with pytest.raises(BufferError):
        BATCH.Batch(made().entries, memoryview(bytes(100))[::2])


def test_contents_that_are_longer_than_the_rows_say_are_cut() -> None:
    batch = made()
    longer = BATCH.Batch(bytes(batch.entries), bytes(batch.contents) + b"beyond")
    assert longer.slices(0, 1) == (batch.entries, batch.contents)
