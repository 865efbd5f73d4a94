"""Buildah and Podman with a storage of their own, and a base image that is made here: no registry is asked.

The storage is kept in the cache of the tests, so that only changed steps of a Containerfile are built again. Without
overlays, which not every file system has, it takes some GiB.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

PROGRAMS = ("buildah", "mmdebstrap", "podman", "runc")
DEBIAN = "bookworm"
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/man/*")
"""What Debian's slim images lack as well."""
CONFIGURATION = """
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
"""
"""What works in a virtual machine without systemd whose root may not raise limits."""
PIP = "/mnt/pip"
BUILD_SECONDS = 2400


def installed() -> None:
    """Install what an engine consists of. Skip the test where that is impossible."""
    if os.geteuid() != 0:
        pytest.skip("images are built and run as root here")
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        pytest.skip(f"{', '.join(missing)} not installed, and this is no Debian")
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        pytest.skip(f"{', '.join(missing)} cannot be installed: {done.stderr.strip()[-200:]}")


def pip_options() -> dict[str, str]:
    """Return the configuration of this machine's pip, for one that builds an image to get its packages likewise."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    pairs = (line.partition("=") for line in listed.splitlines())
    return {name.rpartition(".")[2]: value.strip("'\"").replace("\\n", " ") for name, _, value in pairs}


def pip_volumes(directory: Path) -> Iterator[str]:
    """Yield volumes with a configuration for pip, and with the files and directories that it names."""
    options = pip_options()
    named = {path for value in options.values() for path in re.findall(r"(?:^|\s|file://)(/[^\s]+)", value)}
    for number, path in enumerate(sorted(path for path in named if Path(path).exists())):
        is_index = any(f"file://{path}" in value for value in options.values())
        volume = Path(path).parent if is_index else Path(path)  # the pages of an index link to files beside it
        place = f"{PIP}/{number}/{Path(path).name}" if is_index else f"{PIP}/{number}"
        options = {name: re.sub(rf"{re.escape(path)}(?=\s|$)", place, value) for name, value in options.items()}
        yield f"{volume}:{PIP}/{number}:ro"
    file = directory / "pip.conf"
    file.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in options.items()))
    yield f"{file}:/etc/pip.conf:ro"


def apt_volume(directory: Path) -> str:
    """Return a volume by which the apt of a build asks for its packages as this machine does."""
    file = directory / "apt.conf"
    file.write_text(
        subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True).stdout
    )
    return f"{file}:/etc/apt/apt.conf.d/99machine:ro"


class Engine:
    """`directory` is for files of this run."""

    def __init__(self, directory: Path) -> None:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock-tests"
        self.directory, storage = directory, caches / "images"
        storage.mkdir(parents=True, exist_ok=True)
        (directory / "containers.conf").write_text(CONFIGURATION)
        self.environment = {**os.environ, "CONTAINERS_CONF": str(directory / "containers.conf")}
        run = str(storage / "run")  # the same for each run: Podman refuses a storage that had another one
        self.storage = ("--root", str(storage), "--runroot", run, "--storage-driver", "vfs")

    def run(self, program: str, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command of Buildah or Podman, whatever its exit status."""
        return subprocess.run(
            [program, *self.storage, *arguments],
            env=self.environment, cwd=self.directory, capture_output=True, text=True, check=False, timeout=timeout,
        )  # fmt: skip

    def output(self, program: str, *arguments: str, timeout: float = 300) -> str:
        """Run a command that has to succeed, and return its output."""
        done = self.run(program, *arguments, timeout=timeout)
        assert done.returncode == 0, f"{program} {' '.join(arguments)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout.strip()

    def make_base(self, name: str) -> None:
        """Make an image of Debian as small as the slim ones, under the name that a Containerfile has for one."""
        if self.run("buildah", "images", name).returncode == 0:
            return
        root = self.directory / "base.tar"
        options = [f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT]
        command = ["mmdebstrap", "--variant=minbase", "--mode=root", *options, DEBIAN, str(root)]
        made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        assert made.returncode == 0, made.stderr[-4000:]
        container = self.output("buildah", "from", "scratch")
        self.output("buildah", "add", "--quiet", container, str(root), "/")
        self.output("buildah", "commit", "--quiet", "--rm", container, name)
        root.unlink()

    def build(self, name: str, file: Path, context: Path, labels: Mapping[str, str]) -> None:
        """Build an image."""
        volumes = [*pip_volumes(self.directory), apt_volume(self.directory)]
        self.output(
            "buildah", "build", "--isolation", "chroot", "--pull-never", "--format", "docker", "--layers",
            *(f"--volume={volume}" for volume in volumes),
            *(f"--label={key}={value}" for key, value in labels.items()),
            "--tag", name, "--file", str(file), str(context), timeout=BUILD_SECONDS,
        )  # fmt: skip
