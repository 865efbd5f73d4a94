"""Files set aside: each is kept under a name of its own."""

from __future__ import annotations

from pathlib import Path

from penstock.files.directories import set_aside


def test_each_has_a_name_of_its_own(tmp_path: Path) -> None:
    names = []
    for text in ("one", "two", "three"):
        (tmp_path / "file").write_text(text)
        names.append(set_aside(tmp_path / "file").name)
    assert names == ["file.set-aside", "file.set-aside.1", "file.set-aside.2"]
    assert [(tmp_path / name).read_text() for name in names] == ["one", "two", "three"]
