"""How penstock is built: each module is compiled once, whoever asks, and what is handed out has no more than it needs.

The project that is built has penstock's build files and one module.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.twins import ROOT

BUILD_FILES = ("setup.py", "pyproject.toml", "MANIFEST.in", "Makefile", "README.md", "LICENSE", "CHANGELOG.md")
PAGE = ("pipeline/__init__.py", "pipeline/report/__init__.py", "pipeline/report/templates/page.html")
SOURCE = "def twice(x):\n    return {}\n"
PROGRAMS = ("load/link.h", "load/pump.c", "load/relay.c")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    for folder in ("penstock", "load", "docs", "tests", "pipeline/report/templates"):
        (project / folder).mkdir(parents=True)
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, project)
    (project / "penstock" / "__init__.py").write_text('__version__ = "1"\n')
    (project / "penstock" / "tiny_cy.py").write_text(SOURCE.format("2 * x"))
    (project / "penstock" / "tiny_cy.pxd").write_text("cpdef long twice(long x)\n")
    for name in ("load/__init__.py", *PROGRAMS, "docs/page.md", "tests/test_twice.py", *PAGE):
        (project / name).touch()
    return project


def run(project: Path, *arguments: str) -> str:
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compile_in_place(project: Path) -> str:
    return run(project, "setup.py", "--quiet", "build_ext", "--inplace")


def build(project: Path, kind: str) -> Path:
    """Do what pip does, and return what was made."""
    run(project, "-c", f"from setuptools import build_meta; build_meta.build_{kind}('dist')")
    (made,) = (project / "dist").iterdir()
    return made


def compiled(project: Path) -> tuple[Path, int]:
    (library,) = (project / "build").rglob("tiny_cy.*.so")
    return library, library.stat().st_mtime_ns


@pytest.mark.long
def test_a_module_is_compiled_once_and_again_after_a_change(project: Path) -> None:
    line = compile_in_place(project)
    assert re.fullmatch(r"penstock: compiling 1 of 1 modules, about 1 min on \d+ idle cores\n", line)
    first = compiled(project)
    assert compile_in_place(project) == ""
    build(project, "editable")
    assert compiled(project) == first

    (project / "penstock" / "tiny_cy.py").write_text(SOURCE.format("x + x"))
    assert "1 of 1" in compile_in_place(project)
    assert compiled(project) != first


@pytest.mark.long
def test_an_editable_installation_alone_compiles_in_place(project: Path) -> None:
    build(project, "editable")
    first = compiled(project)
    assert len(list((project / "penstock").glob("tiny_cy.*.so"))) == 1
    assert compile_in_place(project) == ""
    assert compiled(project) == first


@pytest.mark.long
def test_a_wheel_has_no_c_files_and_no_debugging_information(project: Path) -> None:
    compile_in_place(project)
    with zipfile.ZipFile(build(project, "wheel")) as wheel:
        names = [name for name in wheel.namelist() if ".dist-info/" not in name]
        (library,) = (name for name in names if name.endswith(".so"))
        assert b".debug_info" not in wheel.read(library)
    programs = {f"penstock_programs/{name}" for name in PROGRAMS}
    assert {name for name in names if name.endswith((".c", ".h"))} == programs
    assert {"penstock/tiny_cy.pxd", *(f"penstock_programs/{name}" for name in PAGE)} <= set(names)


def test_a_source_distribution_has_the_documentation_and_nothing_that_is_made(project: Path) -> None:
    (project / "penstock" / "tiny_cy.c").touch()
    (project / "penstock" / "tiny_cy.so").touch()
    with tarfile.open(build(project, "sdist")) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert {"CHANGELOG.md", "docs/page.md", "penstock/tiny_cy.py", "penstock/tiny_cy.pxd"} <= names
    assert {*PROGRAMS, *PAGE} <= names
    assert not {name for name in names if name.startswith("tests/") or "tiny_cy.c" in name or name.endswith(".so")}


@pytest.mark.parametrize("verb", ["serve", "setup"])
def test_make_compiles_in_view_before_pip_would_do_it_silently(project: Path, verb: str) -> None:
    done = subprocess.run(
        ["make", "--dry-run", "PYTHON=python3", verb], cwd=project, capture_output=True, text=True, check=True
    )
    steps = [line for line in done.stdout.splitlines() if "build_ext" in line or "--editable" in line]
    assert len(steps) == 2
    assert "build_ext --inplace" in steps[0]
    assert "pip install" in steps[1]
