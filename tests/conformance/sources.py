"""Fetching a suite: its source and an environment to run it in, once per user, outside the repository.

The ordinary clients of the Python package index and of Debian fetch and verify; the test is skipped if that fails.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conformance.suites import Suite

FETCH_SECONDS = 300
APT_HELPER = "/usr/lib/apt/apt-helper"
DEBIAN = "trixie"
"""The release whose source packages are used; it need not be the one that is installed."""


class Fetched:
    """A suite on this machine: `source` is the root of its source, `python` the interpreter of its environment."""

    def __init__(self, directory: Path) -> None:
        self.source = directory / "source"
        self.python = directory / "environment" / "bin" / "python"


def fetch(suite: Suite) -> Fetched:
    """Return the suite, from the cache if it has been fetched before. Skip the test if it cannot be fetched."""
    wanted = "\n".join([suite.origin, suite.package, suite.version, *suite.requires, sys.version])
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-tests"
    directory = caches / f"suite-{suite.name}-{hashlib.sha256(wanted.encode()).hexdigest()[:16]}"
    if not directory.exists():
        caches.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=caches) as scratch:
            made = Path(scratch) / "suite"
            _source(suite, made)
            _environment(suite, made)
            try:
                made.rename(directory)
            except OSError:
                assert directory.exists()  # another worker was quicker
    fetched = Fetched(directory)
    _name_interpreter(fetched.python)
    return fetched


def _name_interpreter(python: Path) -> None:
    """Rewrite the environment's scripts, which name the interpreter where the environment was made."""
    for script in python.parent.iterdir():
        if script.is_symlink() or not script.is_file():
            continue
        line, separator, rest = script.read_bytes().partition(b"\n")
        if line.startswith(b"#!/") and line.endswith(b"/python") and line[2:] != bytes(python):
            script.write_bytes(b"#!" + bytes(python) + separator + rest)


def _source(suite: Suite, target: Path) -> None:
    with tempfile.TemporaryDirectory() as downloads:
        archive = {"index": _from_index, "debian": _from_debian}[suite.origin](suite, Path(downloads))
        unpacked = Path(downloads) / "unpacked"
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
        (root,) = unpacked.iterdir()
        shutil.move(root, target / "source")


def _from_index(suite: Suite, downloads: Path) -> Path:
    requirement = f"{suite.package}=={suite.version}"
    options = ["--quiet", "--no-deps", "--no-binary", suite.package, "--dest", str(downloads)]
    _run([sys.executable, "-m", "pip", "download", *options, requirement])
    (archive,) = downloads.glob("*.tar.gz")
    return archive


def _from_debian(suite: Suite, downloads: Path) -> Path:
    """Return the upstream archive of a source package: only that is needed, and `apt-get source` fetches all or
    nothing.
    """
    if not Path(APT_HELPER).exists():
        pytest.skip("Debian's source packages need apt")
    apt = _apt(downloads)
    _run(["apt-get", *apt, "update"])
    listed = _run(["apt-get", *apt, "source", "--quiet=2", "--print-uris", f"{suite.package}={suite.version}"])
    for line in listed.splitlines():
        if ".orig.tar" in line:
            uri, name, _, checksum = line.split()
            _run([APT_HELPER, "download-file", uri.strip("'"), str(downloads / name), checksum])
            return downloads / name
    raise AssertionError(f"no upstream archive in {listed!r}")


def _apt(scratch: Path) -> list[str]:
    """Return options that make apt read `DEBIAN`'s sources from this machine's mirror, with a state of its own."""
    wanted = ["--format", "$(REPO_URI) $(COMPONENT) $(ORIGIN) $(LABEL)", "Created-By: Packages"]
    targets = _run(["apt-get", "indextargets", *wanted]).splitlines()
    mirror = next((line.split()[0] for line in targets if line.endswith(" main Debian Debian")), None)
    if mirror is None:
        pytest.skip("no mirror of Debian among this machine's package sources")
    (scratch / "lists").mkdir()
    (scratch / "suite.list").write_text(f"deb-src {mirror} {DEBIAN} main\n")
    settings = {
        "Dir::Etc::SourceList": scratch / "suite.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": scratch / "lists",
        "Dir::Cache": scratch,
    }
    return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]


def _environment(suite: Suite, target: Path) -> None:
    """Make a virtual environment with the package as fetched and the requirements of the suite."""
    directory = target / "environment"
    _run([sys.executable, "-m", "venv", "--without-pip", str(directory)])
    pip = [sys.executable, "-m", "pip", "--python", str(directory / "bin" / "python"), "install", "--quiet"]
    _run([*pip, *suite.requires, str(target / "source")])


def _run(command: Sequence[str]) -> str:
    """Run a command and return its output; skip the test with its last words if it fails."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{command[0]} took more than {FETCH_SECONDS} s")
    except subprocess.CalledProcessError as failed:
        pytest.skip(f"cannot be fetched: {failed.stderr.strip()[-300:]}")
    return done.stdout
