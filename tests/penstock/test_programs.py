"""The folder of the programs' packages, and a process that looks there before all else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import programs
from tests.twins import ROOT

SHOW = "import sys, subprocess; print(__name__, OWNER, *sys.argv[1:], flush=True)\n"
CHILD = "subprocess.run([sys.executable, '-m', 'load.child'], check=True)\n"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """An installation with the program `load.parent`, which starts `load.child`."""
    (tmp_path / "penstock").mkdir()
    (tmp_path / "penstock" / "__init__.py").touch()
    shutil.copy(ROOT / "penstock" / "programs.py", tmp_path / "penstock")
    write_load(tmp_path / programs.INSTALLED, "penstock")
    return tmp_path


def write_load(directory: Path, owner: str) -> None:
    (directory / "load").mkdir(parents=True)
    (directory / "load" / "__init__.py").write_text(f"OWNER = '{owner}'\n")
    (directory / "load" / "parent.py").write_text("from load import OWNER\n" + SHOW + CHILD)
    (directory / "load" / "child.py").write_text("from load import OWNER\n" + SHOW)


def run(*arguments: str, cwd: Path, path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_the_folder_is_the_checkout_where_nothing_is_installed() -> None:
    assert programs.folder() == ROOT


@pytest.mark.parametrize("inherited", ["", "/a:/b", f"/a:{ROOT}:/b", f"{ROOT}:/a::/b"])
def test_the_folder_is_first_and_once_on_the_path_of_a_process(inherited: str) -> None:
    others = ["/a", "/b"] if inherited else []
    environment = programs.environment({"HOME": "/", "PYTHONPATH": inherited})
    assert environment["PYTHONPATH"].split(":") == [str(ROOT), *others]
    assert environment["HOME"] == "/"
    assert programs.environment(environment) == environment


@pytest.mark.parametrize("as_file", [False, True])
def test_a_program_and_its_children_are_penstocks_beside_an_application(
    installed: Path, tmp_path: Path, as_file: bool
) -> None:
    """The application is in PYTHONPATH and in the working directory. As a file: as spark-submit runs it."""
    application = tmp_path / "application"
    write_load(application, "application")
    path = Path(f"{application}:{installed}")
    how = [str(installed / "penstock" / "programs.py")] if as_file else ["-m", "penstock.programs"]
    done = run(*how, "load.parent", "one", cwd=application, path=path)
    assert done.stderr == ""
    assert done.stdout == "__main__ penstock one\n__main__ penstock\n"
    theirs = run("-m", "load.parent", cwd=application, path=path)
    assert theirs.stdout == "__main__ application\n__main__ application\n"


def test_a_module_has_to_be_named(installed: Path) -> None:
    done = run("-m", "penstock.programs", cwd=installed, path=installed)
    assert (done.returncode, done.stderr) == (1, "usage: python -m penstock.programs MODULE ARGUMENT…\n")
