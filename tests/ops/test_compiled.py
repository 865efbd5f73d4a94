"""Which modules are compiled, asked of this checkout and of one that is not built."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from ops import compiled

ROOT = Path(__file__).resolve().parents[2]


def test_every_source_to_compile_is_found_and_compiled() -> None:
    names = compiled.extension_modules()
    assert {"penstock.memory.gauges", "penstock.batch.batch_cy", "penstock.amqp.scan_cy"} <= set(names)
    assert compiled.uncompiled() == []


def test_serve_refuses_to_run_uncompiled(tmp_path: Path) -> None:
    packages = ["ops", *compiled.PACKAGES]
    for package in packages:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "ops", "serve", "--port", "0", "--data", str(tmp_path / "data")],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    said, _, names = done.stderr.partition(": not compiled, run `make setup`: ")
    assert said == "penstock"
    assert names.rstrip("\n").split(", ") == compiled.extension_modules()
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()
