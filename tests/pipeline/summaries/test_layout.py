"""Names and manifests of summaries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.summaries.layout import Manifest, day_of, day_path

NAMES = st.lists(st.text(max_size=9), max_size=4).map(tuple)
COUNTS = st.integers(0, 2**60)
MANIFESTS = st.builds(Manifest, NAMES, NAMES, COUNTS, COUNTS, COUNTS)


@given(MANIFESTS)
def test_a_manifest_is_read_as_it_was_written(manifest: Manifest) -> None:
    assert Manifest.from_json(manifest.to_json()) == manifest


@given(MANIFESTS, st.integers(0, 200))
def test_a_torn_manifest_is_none(manifest: Manifest, length: int) -> None:
    text = manifest.to_json().rstrip()
    if length < len(text):
        assert Manifest.from_json(text[:length]) is None


def test_a_day_is_known_by_its_directory_and_its_files() -> None:
    base = "/root/history/queue_days/v=1"
    assert day_of(f"{base}/{day_path('2026-11-20')}") == "2026-11-20"
    assert day_of(f"{base}/{day_path('2026-11-20')}/part-1.parquet") == "2026-11-20"
    assert day_of(f"{base}/dt=2026-11-20/hour=3") is None
    assert day_of(base) is None
