"""The requirements of extras, as `make setup` hands them to pip: those of the project file, one a line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.twins import ROOT

PROJECT = """
[project]
name = "x"
[project.optional-dependencies]
load = ["a>=1", "b[c]==2 ; python_version < '4'"]
dev = ["d"]
"""


def printed(directory: Path, *extras: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "ops" / "setup" / "extra.py", *extras]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_the_requirements_of_the_named_extras_are_printed_one_a_line(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    assert printed(tmp_path, "dev", "load").stdout == "d\na>=1\nb[c]==2 ; python_version < '4'\n"
    assert printed(tmp_path).stdout == ""


def test_an_extra_that_is_not_there_ends_in_an_error(tmp_path: Path) -> None:
    """Otherwise `make setup` would go on without it."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    done = printed(tmp_path, "test")
    assert done.returncode != 0 and "KeyError: 'test'" in done.stderr


def test_the_extras_of_the_makefile_are_in_the_project() -> None:
    lines = [line for line in (ROOT / "Makefile").read_text().splitlines() if "ops/setup/extra.py" in line]
    assert lines
    for line in lines:
        extras = line.partition("extra.py")[2].partition("|")[0].split()
        done = printed(ROOT, *extras)
        assert extras and done.returncode == 0 and len(done.stdout.splitlines()) >= len(extras)
