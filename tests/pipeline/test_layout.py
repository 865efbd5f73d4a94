"""The layout of telemetry, and the contents of manifests: names only."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.layout import HOUR_US, FileName, partition
from pipeline import layout
from pipeline.layout import Hour, Manifest

NAMES = st.text("abc-.0123456789", min_size=1)
COUNTS = st.integers(0, 2**60)


@given(st.integers(0, 4_000_000_000_000_000))
def test_an_hour_is_where_its_rows_are_written(ts: int) -> None:
    hour = Hour.of(ts)
    assert hour.begins <= ts < hour.ends
    assert hour.ends - hour.begins == HOUR_US
    path = str(partition(Path("/root"), "depth", ts // HOUR_US) / str(FileName("node", "console", ts, True)))
    assert path.startswith(f"{layout.live_base('/root/', 'depth')}/{hour.path}/")
    assert layout.hour_of(path) == hour
    assert layout.by_hour([path], layout.LIVE) == {hour: [path]}


def test_what_is_no_file_of_telemetry_is_left_alone() -> None:
    base = "/r/depth/v=1/dt=2026-11-20/hour=3"
    names = (".node-console-1.jsonl.zst", "_SUCCESS", "part-0.parquet", "node.jsonl", "a.jsonl.zst.crc")
    assert layout.by_hour([f"{base}/{name}" for name in names], layout.LIVE) == {}
    assert layout.by_hour(["/r/depth/v=1/dt=2026-11-20/hour=24/a.jsonl.zst", "/r/a.jsonl.zst"], layout.LIVE) == {}


@given(
    st.builds(
        Manifest, *(st.lists(NAMES).map(tuple) for _ in range(2)), COUNTS, COUNTS, COUNTS, st.lists(NAMES).map(tuple)
    )
)
def test_a_manifest_is_read_as_it_was_written(manifest: Manifest) -> None:
    assert Manifest.from_json(manifest.to_json()) == manifest


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"parts": []}', '{"parts": 3, "sources": [], "rows": 1}'])
def test_a_torn_manifest_is_none(text: str) -> None:
    assert Manifest.from_json(text) is None


@given(st.integers(1, 2_000_000))
def test_a_manifest_has_the_number_of_its_name(number: int) -> None:
    assert layout.manifest_number(layout.manifest_name(number)) == number
    assert layout.manifest_number(layout.MANIFEST_0) == 0
    for name in (f".{layout.manifest_name(number)}.crc", f"{layout.manifest_name(number)}.tmp", "_manifest-.json"):
        assert layout.manifest_number(name) is None


def test_files_that_a_manifest_does_not_name_are_late() -> None:
    files = ["/r/a.jsonl.zst", "/r/b.jsonl.zst", "/r/c.jsonl.zst"]
    manifest = Manifest(("part-1",), ("a.jsonl.zst",), 1, 0, 0, ("b.jsonl.zst",))
    assert layout.late_files(files, manifest) == ["/r/c.jsonl.zst"]
    assert layout.late_files(files, None) == files


def test_an_hour_is_closed_when_it_is_over_and_the_grace_too() -> None:
    hour = Hour("2026-11-20", 11)
    assert not layout.is_closed(hour, hour.ends + 9, 10)
    assert layout.is_closed(hour, hour.ends + 10, 10)
    assert layout.reaches(hour, hour.begins - 5, hour.begins + 1)
    assert not layout.reaches(hour, hour.begins - 5, hour.begins)
    assert not layout.reaches(hour, hour.ends, hour.ends + 5)
    assert layout.span([Hour("2026-11-21", 2), hour, Hour("2026-11-20", 12)]) == (
        hour.begins,
        hour.begins + 16 * HOUR_US,
    )
    assert layout.span([]) == (0, 0)


def test_a_span_is_from_the_first_hour_to_the_last() -> None:
    first, last = Hour("2026-11-20", 11), Hour("2026-11-21", 2)
    assert layout.span([last, first, Hour("2026-11-20", 12)]) == (first.begins, last.ends)
    assert layout.span([]) == (0, 0)
