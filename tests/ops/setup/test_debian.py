"""The folder of the Debian package: in step with the rest of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ops.manual import pages
from penstock import __version__
from penstock.settings.sources import read_configuration
from tests.twins import ROOT

PACKAGE = ROOT / "packages" / "debian"
CONTROL = (PACKAGE / "control").read_text()


def build_dependencies() -> list[str]:
    """Return the packages that building needs, without their versions."""
    found = re.search(r"^Build-Depends:\n((?: .+\n)+)", CONTROL, re.MULTILINE)
    assert found
    return [line.split()[0].rstrip(",") for line in found[1].splitlines()]


def test_its_version_is_that_of_penstock() -> None:
    assert (PACKAGE / "changelog").read_text().startswith(f"penstock ({__version__}) ")


def test_it_asks_for_the_python_that_penstock_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f" python3 ({project['requires-python'].replace('>=', '>= ')})," in CONTROL


def test_its_service_reads_the_configuration_that_it_brings(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "ops" / "systemd", tmp_path / "ops" / "systemd")
    (tmp_path / "debian").mkdir()
    subprocess.run(["make", "-s", "-f", PACKAGE / "rules", "override_dh_auto_configure"], cwd=tmp_path, check=True)
    unit = (tmp_path / "debian" / "penstock.service").read_text()
    assert unit.startswith("[Unit]\n") and "/opt" not in unit
    started = re.search(r"^ExecStart=/usr/bin/penstock serve --config (\S+) --data (\S+)$", unit, re.MULTILINE)
    assert started
    brought = re.search(r"^debian/(\S+) (\S+)", (PACKAGE / "penstock.install").read_text(), re.MULTILINE)
    assert brought and started[1] == f"/{brought[2]}/{brought[1]}"
    settings = read_configuration(PACKAGE / brought[1]).settings
    assert settings.data == Path(started[2])


@pytest.mark.long
def test_completions_and_pages_are_those_of_the_command(tmp_path: Path) -> None:
    subprocess.run([PACKAGE / "made.sh", sys.executable, tmp_path], cwd=ROOT, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {*pages(), "penstock", "penstock.fish", "_penstock"}
    assert (tmp_path / "_penstock").read_text().startswith("#compdef penstock\n")
    assert (tmp_path / "penstock.fish").read_text().startswith("complete --command penstock ")
    command = tmp_path / "bin" / "penstock"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m penstock.programs ops "$@"\n')
    command.chmod(0o755)
    words = 'COMP_WORDS=(penstock sto); COMP_CWORD=1; _penstock_completion penstock; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f". {tmp_path / 'penstock'}; {words}"], cwd=ROOT, capture_output=True, text=True, check=True,
        env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.stdout == "store\n"
