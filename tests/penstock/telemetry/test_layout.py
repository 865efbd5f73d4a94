"""The names of files and directories."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.layout import FileName, files, partition

NAMES = st.from_regex(r"[A-Za-z0-9._-]{0,20}[A-Za-z0-9]", fullmatch=True).filter(lambda name: name[0] != ".")


@given(node=NAMES, role=st.sampled_from(["acceptor.0.1", "console.0.12"]), begun=st.integers(0), finished=st.booleans())
def test_a_name_says_what_it_was_made_of(node: str, role: str, begun: int, finished: bool) -> None:
    name = FileName(node, role, begun, finished)
    assert FileName.parse(str(name)) == name


@pytest.mark.parametrize(
    "name", ["", ".jsonl.zst", "n-p-1.jsonl", "n-p-x.jsonl.zst", "n--1.jsonl.zst", "n-1.jsonl.zst", "-p-1.jsonl.zst"]
)
def test_other_files_are_none_of_them(name: str) -> None:
    assert FileName.parse(name) is None


def test_partitions_are_of_utc(tmp_path: Path) -> None:
    assert partition(tmp_path, "depth", 0) == tmp_path / "depth/v=1/dt=1970-01-01/hour=0"
    assert partition(tmp_path, "flow", 24 * 365 + 13) == tmp_path / "flow/v=1/dt=1971-01-01/hour=13"


def test_files_of_a_node_are_found_and_no_others(tmp_path: Path) -> None:
    here = partition(tmp_path, "depth", 1)
    history = partition(tmp_path / "history", "depth", 1)
    for directory in (here, history):
        directory.mkdir(parents=True)
        for name in ("n-p-1.jsonl.zst", ".n-p-2.jsonl.zst", "other-p-1.jsonl.zst", "_SUCCESS", "n-p-1.parquet"):
            (directory / name).touch()
    assert sorted(files(tmp_path, {"n"})) == [
        (FileName("n", "p", 1, True), here / "n-p-1.jsonl.zst"),
        (FileName("n", "p", 2, False), here / ".n-p-2.jsonl.zst"),
    ]
