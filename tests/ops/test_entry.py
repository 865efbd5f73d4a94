"""The command in a checkout that was never built: one line says so. Any other missing module is a bug and is raised."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from ops import compiled
from tests.twins import ROOT


def run(checkout: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=checkout, env={}, capture_output=True, text=True, check=False)


def test_serve_refuses_to_run_uncompiled(tmp_path: Path) -> None:
    packages = ["ops", *compiled.PACKAGES]
    for package in packages:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    done = run(tmp_path, "-m", "ops", "serve", "--port", "0", "--data", str(tmp_path / "data"))
    assert done.returncode == 2
    said, _, names = done.stderr.partition(": not compiled, run `make setup`: ")
    assert said == "penstock"
    assert names.rstrip("\n").split(", ") == compiled.extension_modules()
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_module_that_is_missing_for_another_reason_is_raised(tmp_path: Path) -> None:
    """Nothing is to be compiled here, so no compiled module can be missing."""
    (tmp_path / "ops").mkdir()
    for package in compiled.PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    for name in ("__init__.py", "entry.py", "compiled.py"):
        shutil.copy(ROOT / "ops" / name, tmp_path / "ops")
    (tmp_path / "ops" / "cli.py").write_text("import no_such_module\n")
    done = run(tmp_path, "-c", "from ops.entry import main; main()")
    assert done.returncode == 1
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'no_such_module'\n")
