"""Packages of Node.js for tests: installed once per user by the ordinary npm client, outside the repository."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "node"
INSTALL_SECONDS = 100


def environment(programs: Path = PROGRAMS) -> dict[str, str]:
    """Return the environment in which a folder's programs find the packages of its package.json. Skip the test if node,
    npm or a package is missing.
    """
    for program in ("node", "npm"):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")
    package = (programs / "package.json").read_bytes()
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-tests"
    installed = caches / f"node-{hashlib.sha256(package).hexdigest()[:16]}"
    if not installed.exists():
        caches.mkdir(parents=True, exist_ok=True)
        _install(package, installed)
    return os.environ | {"NODE_PATH": str(installed / "node_modules")}


def _install(package: bytes, target: Path) -> None:
    """Install into a scratch directory, then rename it to `target`: several workers may do this at once."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        directory = Path(scratch) / "install"
        directory.mkdir()
        (directory / "package.json").write_bytes(package)
        command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
        try:
            subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True, timeout=INSTALL_SECONDS)
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm install took more than {INSTALL_SECONDS} s")
        except subprocess.CalledProcessError as failed:
            pytest.skip(f"npm install failed: {failed.stderr.strip()[-300:]}")
        try:
            directory.rename(target)
        except OSError:
            assert target.exists()  # another worker was faster
