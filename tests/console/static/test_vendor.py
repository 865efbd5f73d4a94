"""The third-party code of the console is what its lock file says, and nothing is fetched from elsewhere."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from tests.house import ROOT

STATIC = ROOT / "console/static"
VENDOR = STATIC / "vendor"
SERVED = sorted(path for path in STATIC.rglob("*") if path.suffix in {".js", ".css", ".html"})
OWN = [path for path in SERVED if VENDOR not in path.parents]
LINES_MOST = 400


def test_each_vendored_file_is_locked() -> None:
    locked = dict(re.findall(r"^([0-9a-f]{64})  (\S+)$", (VENDOR / "LOCK.txt").read_text(), re.MULTILINE))
    files = [path for path in VENDOR.rglob("*") if path.is_file() and path.name != "LOCK.txt"]
    found = {hashlib.sha256(path.read_bytes()).hexdigest(): str(path.relative_to(VENDOR)) for path in files}
    assert found == locked


def test_each_vendored_package_has_its_licence() -> None:
    packages = re.findall(r"^package (\S+) \S+  \S", (VENDOR / "LOCK.txt").read_text(), re.MULTILINE)
    assert packages == ["preact", "htm", "uplot"]
    assert all((VENDOR / package / "LICENSE.txt").is_file() for package in packages)


@pytest.mark.parametrize("path", OWN, ids=lambda path: str(path.relative_to(STATIC)))
def test_a_file_is_short_and_names_no_other_place(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LINES_MOST
    assert not re.search(r"https?://|//[a-z]+\.[a-z]", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|style=\"", text)


@pytest.mark.parametrize("path", sorted(STATIC.rglob("*.js")), ids=lambda path: str(path.relative_to(STATIC)))
def test_imports_are_of_files_that_exist(path: Path) -> None:
    for name in re.findall(r"""(?<!['"])\b(?:from|import)\s*\(?\s*['"]([^'"\s=]+)['"]""", path.read_text()):
        assert name.startswith("."), name
        assert (path.parent / name).is_file(), name
