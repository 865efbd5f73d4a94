"""The manifest of a backup: read as it was written, or refused."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from ops.errors import CommandError
from ops.store.manifest import FORMAT, NAME, PIECE, File, Manifest, digest, load, store

FOUND = Manifest("1.2.3", 7, [11, 12], 1_800_000_000_000_000, {"topology": 3}, 0, {"topology.sqlite": File(5, "ab")})


def written(directory: Path, **facts: Any) -> None:
    """Write a manifest with changed facts and the checksum of these."""
    store(directory, FOUND)
    found = orjson.loads((directory / NAME).read_bytes()) | facts
    del found["checksum"]
    found["checksum"] = hashlib.sha256(orjson.dumps(found, option=orjson.OPT_SORT_KEYS)).hexdigest()
    (directory / NAME).write_bytes(orjson.dumps(found))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    store(tmp_path, FOUND)
    assert load(tmp_path) == FOUND
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
    written(tmp_path)
    assert load(tmp_path) == FOUND, "the checksum is as documented"
    store(tmp_path, replace(FOUND, files={}))
    assert load(tmp_path).files == {}


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "shards/../../x", ""])
def test_a_path_that_leads_out_of_the_backup_is_damage(tmp_path: Path, path: str) -> None:
    written(tmp_path, files={path: {"size": 0, "sha256": ""}})
    with pytest.raises(CommandError, match=f"^{tmp_path}/{NAME} is damaged$"):
        load(tmp_path)


@pytest.mark.parametrize("facts", [{"files": 7}, {"files": {"x": {}}}, {"further": 1}])
def test_facts_that_do_not_fit_are_damage(tmp_path: Path, facts: dict[str, Any]) -> None:
    written(tmp_path, **facts)
    with pytest.raises(CommandError, match=f"^{tmp_path}/{NAME} is damaged$"):
        load(tmp_path)


def test_every_changed_fact_is_damage(tmp_path: Path) -> None:
    store(tmp_path, FOUND)
    path = tmp_path / NAME
    data = path.read_bytes()
    for old, new in ((b"1.2.3", b"1.2.4"), (b'"node": 7', b'"node": 8'), (b'"ab"', b'"ac"'), (b"{", b"["), (b"}", b"")):
        assert old in data
        path.write_bytes(data.replace(old, new))
        with pytest.raises(CommandError, match=f"^{path} is damaged$"):
            load(tmp_path)


def test_a_newer_format_is_named(tmp_path: Path) -> None:
    written(tmp_path, format=FORMAT + 1, files=[])
    text = f"{tmp_path} is a backup of format {FORMAT + 1}, this penstock knows format {FORMAT}"
    with pytest.raises(CommandError, match=f"^{text}$"):
        load(tmp_path)


def test_a_directory_without_one_is_not_a_backup(tmp_path: Path) -> None:
    text = f"^{tmp_path} is not a backup, or one that was cut short: it has no {NAME}$"
    with pytest.raises(CommandError, match=text):
        load(tmp_path)
    (tmp_path / NAME).mkdir()
    with pytest.raises(CommandError, match=f"^{tmp_path}/{NAME}: Is a directory$"):
        load(tmp_path)


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1])
def test_the_digest_is_of_the_whole_file(tmp_path: Path, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    (tmp_path / "file").write_bytes(data[:size])
    assert digest(tmp_path / "file") == File(size, hashlib.sha256(data[:size]).hexdigest())
