"""Manifests of directories: the highest complete one counts, whatever dead runs left and other runs remove."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.files import Files
from pipeline.layout import MANIFEST_0, Manifest, manifest_name
from pipeline.manifests import ATTEMPTS, Directory, commit, read_directories, sweep


def naming(*parts: str) -> Manifest:
    return Manifest(parts, (), 1, 0, 0)


def directory(root: Path, *parts: str) -> Path:
    path = root / "a=1" / "b=2"
    path.mkdir(parents=True)
    for part in parts:
        (path / part).touch()
    return path


def only(files: Files, root: Path) -> Directory[Manifest]:
    (found,) = read_directories(files, f"{root}/a=*/b=*", Manifest.from_json).values()
    return found


def names(path: Path) -> set[str]:
    return {each.name for each in path.iterdir() if not each.name.startswith(".")}


def test_a_commit_supersedes_the_one_before(spark: SparkSession, tmp_path: Path) -> None:
    files, path = Files(spark), directory(tmp_path, "part-1.parquet", "part-2.parquet", "other")
    assert only(files, tmp_path).next_number == 1
    commit(files, str(path), 1, naming("part-1.parquet"))
    commit(files, str(path), 2, naming("part-2.parquet"))
    found = only(files, tmp_path)
    assert (found.manifest, found.next_number) == (naming("part-2.parquet"), 3)
    sweep(files, found)
    assert names(path) == {"part-2.parquet", manifest_name(2), "other"}
    assert only(files, tmp_path) == Directory(naming("part-2.parquet"), 3)
    with pytest.raises(PipelineError, match=manifest_name(2)):
        commit(files, str(path), 2, naming("part-1.parquet"))


@pytest.mark.parametrize("length", [0, 1, 30, -2])
@pytest.mark.parametrize("checked", [True, False])
def test_a_torn_manifest_is_passed_over(spark: SparkSession, tmp_path: Path, length: int, checked: bool) -> None:
    """`checked`: its checksums, on file systems that have them, are those of the whole manifest."""
    files, path = Files(spark), directory(tmp_path, "part-1.parquet", "part-2.parquet")
    commit(files, str(path), 1, naming("part-1.parquet"))
    commit(files, str(path), 2, naming("part-2.parquet"))
    torn = path / manifest_name(2)
    torn.write_bytes(torn.read_bytes()[:length])
    if not checked:
        torn.with_name(f".{torn.name}.crc").unlink()
    found = only(files, tmp_path)
    assert (found.manifest, found.next_number, found.superseded) == (naming("part-1.parquet"), 3, ())
    commit(files, str(path), 3, naming("part-2.parquet"))
    sweep(files, only(files, tmp_path))
    assert names(path) == {"part-2.parquet", manifest_name(3)}


def test_without_a_complete_manifest_no_part_counts(spark: SparkSession, tmp_path: Path) -> None:
    files, path = Files(spark), directory(tmp_path, "part-1.parquet")
    (path / manifest_name(1)).write_text("{")
    found = only(files, tmp_path)
    assert (found.manifest, found.next_number, found.superseded, len(found.unnamed)) == (None, 2, (), 1)
    assert read_directories(files, f"{tmp_path}/nowhere/*", Manifest.from_json) == {}


def test_the_manifest_of_an_earlier_release_is_number_0(spark: SparkSession, tmp_path: Path) -> None:
    files, path = Files(spark), directory(tmp_path, "part-1.parquet", "part-2.parquet")
    (path / MANIFEST_0).write_text(naming("part-1.parquet").to_json())
    found = only(files, tmp_path)
    assert (found.manifest, found.next_number, len(found.unnamed)) == (naming("part-1.parquet"), 1, 1)
    commit(files, str(path), 1, naming("part-2.parquet"))
    sweep(files, only(files, tmp_path))
    assert names(path) == {"part-2.parquet", manifest_name(1)}


def replacing(path: Path, times: int) -> Callable[[Files, str], str | None]:
    """Return a `Files.read` before which, as often as that, the directory gets a new manifest and is swept."""
    done, read = iter(range(times)), Files.read

    def replace_and_read(files: Files, name: str) -> str | None:
        if (number := next(done, None)) is not None:
            commit(files, str(path), number + 2, naming(f"part-{number + 2}.parquet"))
            (path / manifest_name(number + 1)).unlink()
        return read(files, name)

    return replace_and_read


def test_a_manifest_replaced_after_it_was_listed_is_found(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory is listed again: the one that counts is the new one, and never none."""
    files, path = Files(spark), directory(tmp_path)
    commit(files, str(path), 1, naming("part-1.parquet"))
    monkeypatch.setattr(Files, "read", replacing(path, 2))
    found = only(files, tmp_path)
    assert (found.manifest, found.next_number) == (naming("part-3.parquet"), 4)


def test_a_directory_that_never_stands_still_is_one_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, path = Files(spark), directory(tmp_path)
    commit(files, str(path), 1, naming("part-1.parquet"))
    monkeypatch.setattr(Files, "read", replacing(path, ATTEMPTS))
    with pytest.raises(PipelineError, match="b=2: a manifest is listed, but is not there"):
        only(files, tmp_path)
